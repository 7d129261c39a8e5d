package main

import (
	"errors"
	"fmt"
	"io"

	"github.com/lockkeeper/lockkeeper/examples/nightly/orders"
)

// errVerdict is returned when something is wrong and that has been said.
var errVerdict = errors.New("not as it should be")

// verify proves that nothing in the data set in dir is corrupted, or says what
// is.
func verify(dir string, out io.Writer, paint palette) error {
	report, err := orders.Open(dir).Verify()
	if err != nil {
		return err
	}
	printf := func(format string, args ...any) { _, _ = fmt.Fprintf(out, format, args...) }

	printf("  verify read %d orders worth %d.%02d in generation %d, replayed %s,\n",
		report.Orders, report.Cents/100, report.Cents%100, report.Generation, count(report.Corrections, "correction"))
	printf("  and unpacked %s: ", count(report.Backups, "backup"))
	if report.Sound() {
		printf("%s\n", paint.paint(green, "nothing is corrupted"))
		return nil
	}
	printf("%s\n", paint.paint(red, "CORRUPTED"))
	const most = 8
	for i, problem := range report.Problems {
		if i == most {
			printf("    %s and %d more\n", paint.paint(red, "✗"), len(report.Problems)-most)
			break
		}
		printf("    %s %s\n", paint.paint(red, "✗"), shorten(problem, width-6))
	}
	return errVerdict
}

func count(n int, thing string) string {
	if n == 1 {
		return "1 " + thing
	}
	return fmt.Sprintf("%d %ss", n, thing)
}
