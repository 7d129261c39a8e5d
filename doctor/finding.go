package doctor

import "time"

// Result says how a check came out.
type Result string

// The results.
const (
	OK      Result = "ok"
	Warning Result = "warning" // it works, but not as well or as safely as it could
	Problem Result = "problem" // it does not work, or will not for long
	Skipped Result = "skipped" // it could not be seen
)

// A Finding is what one check found about one subject.
type Finding struct {
	Result  Result
	Check   string // one word, for example "quorum"
	Subject string // what it is about, for example a server; "" when that is clear
	Found   string
	Do      string // what to do about it; "" for nothing
}

// A Report is what an examination found.
type Report struct {
	Findings []Finding // in the order in which one would read them
	Took     time.Duration
}

// Count returns how many findings have a result.
func (r Report) Count(result Result) int {
	n := 0
	for _, f := range r.Findings {
		if f.Result == result {
			n++
		}
	}
	return n
}

// findings collects what one check has to say.
type findings struct {
	check string
	all   []Finding
}

func (f *findings) add(result Result, subject, found, do string) {
	f.all = append(f.all, Finding{Result: result, Check: f.check, Subject: subject, Found: found, Do: do})
}

func (f *findings) ok(subject, found string)          { f.add(OK, subject, found, "") }
func (f *findings) warn(subject, found, do string)    { f.add(Warning, subject, found, do) }
func (f *findings) problem(subject, found, do string) { f.add(Problem, subject, found, do) }
func (f *findings) skip(subject, found, do string)    { f.add(Skipped, subject, found, do) }
