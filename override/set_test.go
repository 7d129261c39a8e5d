package override_test

import (
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/lockkeeper/lockkeeper/override"
	"github.com/lockkeeper/lockkeeper/priority"
)

func named(id string, o override.Override) override.Override {
	o.ID = id
	return o
}

// appliedIDs are the IDs of those that made the terms what they are.
func appliedIDs(e override.Effect) string {
	var ids []string
	for _, o := range e.Applied {
		ids = append(ids, o.ID)
	}
	return strings.Join(ids, " ")
}

func inForce(all ...override.Override) override.Set {
	set, _ := override.InForce(all, now)
	return set
}

var (
	boost90  = named("b90", of(override.Boost))
	boost50  = named("b50", of(override.Boost, func(o *override.Override) { o.Priority = new(priority.Level(50)) }))
	boostTop = named("top", of(override.Boost, func(o *override.Override) { o.Priority = new(priority.Emergency) }))
	force    = named("force", of(override.Boost, func(o *override.Override) {
		o.Priority, o.Forceful, o.WaitingTimeout = nil, new(true), new(time.Second)
	}))
	cap10  = named("c10", of(override.Cap))
	cap60  = named("c60", of(override.Cap, func(o *override.Override) { o.Priority = new(priority.Level(60)) }))
	polite = named("polite", of(override.Cap, func(o *override.Override) {
		o.Priority, o.Forceful, o.WaitingTimeout = nil, new(false), new(time.Minute)
	}))
	extend = named("extend", of(override.Extend, func(o *override.Override) {
		o.WaitingTimeout, o.AcquireTimeout, o.CleanupTimeout = new(time.Hour), new(time.Hour), new(time.Minute)
	}))
	patience  = named("patience", of(override.Extend, func(o *override.Override) { o.LeaseTimeout, o.WaitingTimeout = nil, new(time.Hour) }))
	queueing  = named("queueing", of(override.Extend, func(o *override.Override) { o.LeaseTimeout, o.AcquireTimeout = nil, new(time.Hour) }))
	freeze    = named("freeze", of(override.Freeze))
	freeze80  = named("f80", of(override.Freeze, func(o *override.Override) { o.Match.PriorityBelow = new(priority.Level(80)) }))
	bypass    = named("bypass", of(override.Bypass, func(o *override.Override) { o.Match.Scope = "db/*" }))
	someLease = priority.Terms{Priority: 20, LeaseTimeout: 10 * time.Minute}
)

// The documented order, conflict by conflict.
func TestConflictsEndAsDocumented(t *testing.T) {
	with := func(change func(*priority.Terms)) priority.Terms {
		terms := someLease
		change(&terms)
		return terms
	}
	for name, c := range map[string]struct {
		set     []override.Override
		asked   priority.Terms
		want    priority.Terms
		applied string
		frozen  string
		bypass  string
	}{
		"nothing":                                       {nil, someLease, someLease, "", "", ""},
		"bypass changes all else to nothing":            {[]override.Override{boost90, freeze, bypass, extend}, someLease, someLease, "", "", "bypass"},
		"the first of two bypasses":                     {[]override.Override{named("z", bypass), bypass}, someLease, someLease, "", "", "bypass"},
		"the highest boost":                             {[]override.Override{boost50, boost90}, someLease, with(func(t *priority.Terms) { t.Priority = 90 }), "b90", "", ""},
		"a boost never lowers":                          {[]override.Override{boost50}, with(func(t *priority.Terms) { t.Priority = 60 }), with(func(t *priority.Terms) { t.Priority = 60 }), "", "", ""},
		"a boost to emergency":                          {[]override.Override{boostTop, freeze}, someLease, with(func(t *priority.Terms) { t.Priority = priority.Emergency }), "top", "", ""},
		"a boost shortens the waiting":                  {[]override.Override{force}, with(func(t *priority.Terms) { t.WaitingTimeout = new(time.Hour) }), with(func(t *priority.Terms) { t.Forceful, t.WaitingTimeout = true, new(time.Second) }), "force", "", ""},
		"a boost never lengthens the waiting":           {[]override.Override{force}, with(func(t *priority.Terms) { t.Forceful, t.WaitingTimeout = true, new(time.Duration(0)) }), with(func(t *priority.Terms) { t.Forceful, t.WaitingTimeout = true, new(time.Duration(0)) }), "", "", ""},
		"a cap wins over a boost":                       {[]override.Override{boostTop, cap60}, someLease, with(func(t *priority.Terms) { t.Priority = 60 }), "top c60", "", ""},
		"the lowest cap":                                {[]override.Override{cap60, cap10}, with(func(t *priority.Terms) { t.Priority = 70 }), with(func(t *priority.Terms) { t.Priority = 10 }), "c10", "", ""},
		"a cap never raises":                            {[]override.Override{cap60}, someLease, someLease, "", "", ""},
		"a cap makes polite what a boost made forceful": {[]override.Override{force, polite}, someLease, with(func(t *priority.Terms) { t.WaitingTimeout = new(time.Minute) }), "force polite", "", ""},
		"an extension comes last": {[]override.Override{force, polite, extend}, someLease, with(func(t *priority.Terms) {
			t.WaitingTimeout, t.LeaseTimeout, t.CleanupTimeout = new(time.Hour), time.Hour, time.Minute
		}), "force polite extend", "", ""},
		"an extension leaves what has no end": {[]override.Override{extend}, someLease, with(func(t *priority.Terms) { t.LeaseTimeout, t.CleanupTimeout = time.Hour, time.Minute }), "extend", "", ""},
		"an extension leaves a try a try": {[]override.Override{extend}, with(func(t *priority.Terms) { t.AcquireTimeout = new(time.Duration(0)) }), with(func(t *priority.Terms) {
			t.AcquireTimeout, t.LeaseTimeout, t.CleanupTimeout = new(time.Duration(0)), time.Hour, time.Minute
		}), "extend", "", ""},
		"an extension of the queue": {[]override.Override{extend}, with(func(t *priority.Terms) { t.AcquireTimeout = new(time.Duration(1)) }), with(func(t *priority.Terms) {
			t.AcquireTimeout, t.LeaseTimeout, t.CleanupTimeout = new(time.Hour), time.Hour, time.Minute
		}), "extend", "", ""},
		"an extension of the waiting alone":  {[]override.Override{patience}, with(func(t *priority.Terms) { t.WaitingTimeout = new(time.Minute) }), with(func(t *priority.Terms) { t.WaitingTimeout = new(time.Hour) }), "patience", "", ""},
		"an extension of the queueing alone": {[]override.Override{queueing}, with(func(t *priority.Terms) { t.AcquireTimeout = new(time.Minute) }), with(func(t *priority.Terms) { t.AcquireTimeout = new(time.Hour) }), "queueing", "", ""},
		"an extension never shortens": {[]override.Override{patience, queueing}, with(func(t *priority.Terms) { t.WaitingTimeout, t.AcquireTimeout = new(2*time.Hour), new(2*time.Hour) }), with(func(t *priority.Terms) {
			t.WaitingTimeout, t.AcquireTimeout = new(2*time.Hour), new(2*time.Hour)
		}), "", "", ""},
		"a freeze":                    {[]override.Override{freeze80}, someLease, someLease, "", "f80", ""},
		"a boost out of a freeze":     {[]override.Override{boost90, freeze80}, someLease, with(func(t *priority.Terms) { t.Priority = 90 }), "b90", "", ""},
		"a cap into a freeze":         {[]override.Override{cap60, freeze80}, with(func(t *priority.Terms) { t.Priority = 99 }), with(func(t *priority.Terms) { t.Priority = 60 }), "c60", "f80", ""},
		"an override's own request":   {[]override.Override{bypass, cap10, extend, freeze}, priority.Terms{Priority: priority.Emergency}, priority.Terms{Priority: priority.Emergency}, "", "", ""},
		"hold, preempt-now and pause": {[]override.Override{of(override.Hold), named("p", of(override.PreemptNow)), named("q", of(override.Pause))}, someLease, someLease, "", "", ""},
	} {
		t.Run(name, func(t *testing.T) {
			e := inForce(c.set...).Apply(override.Subject{Scope: "db/orders", Job: "nightly"}, c.asked)
			require.Equal(t, c.want, e.Terms)
			require.Equal(t, c.applied, appliedIDs(e))
			id := func(o *override.Override) string {
				if o == nil {
					return ""
				}
				return o.ID
			}
			require.Equal(t, c.frozen, id(e.Frozen))
			require.Equal(t, c.bypass, id(e.Bypass))
		})
	}
}

func TestThePauseThatLastsLongestIsNamed(t *testing.T) {
	short := of(override.Pause, func(o *override.Override) { o.Match.Job = "nightly-*" })
	long := named("long", of(override.Pause, func(o *override.Override) {
		o.Match.Labels, o.Until = map[string]string{"team": "a"}, o.Until.Add(time.Hour)
	}))
	set := inForce(long, short, named("freeze", of(override.Freeze)))
	require.Equal(t, "INC-4411", set.Paused("nightly-1", nil).ID)
	require.Equal(t, "long", set.Paused("nightly-1", map[string]string{"team": "a", "x": "y"}).ID)
	require.Nil(t, set.Paused("hourly", map[string]string{"team": "b"}))
}

func TestOverridesAreInForceUpToTheirEndAndTheLastOfAnIDCounts(t *testing.T) {
	early := named("a", of(override.Freeze, func(o *override.Override) { o.Until = now.Add(time.Second) }))
	late := named("b", of(override.Freeze))
	set, next := override.InForce([]override.Override{late, early}, now)
	require.Equal(t, override.Set{early, late}, set)
	require.Equal(t, early.Until, next)

	set, next = override.InForce([]override.Override{late, early}, early.Until)
	require.Equal(t, override.Set{late}, set, "not any more at the moment itself")
	require.Equal(t, late.Until, next)

	set, next = override.InForce([]override.Override{named("a", late), early}, early.Until)
	require.Empty(t, set, "what was said last counts, also when it has ended")
	require.Zero(t, next)
}

func TestTheOverrideThatCountsMostIsNamed(t *testing.T) {
	for want, set := range map[string]override.Set{
		"bypass": inForce(bypass, boost90, freeze), "freeze": inForce(boost90, freeze), "c60": inForce(boost90, cap60, extend), "extend": inForce(extend),
	} {
		require.Equal(t, want, set.Apply(override.Subject{Scope: "db/orders"}, someLease).By().ID)
	}
	require.Nil(t, override.Effect{}.By())
}

// --- properties -----------------------------------------------------------------

func genLevel(t *rapid.T, name string, most priority.Level) priority.Level {
	return rapid.SampledFrom([]priority.Level{1, 10, 20, 50, 90, priority.Emergency - 1, most}).Draw(t, name)
}

func genDuration(t *rapid.T, name string) time.Duration {
	return time.Duration(rapid.IntRange(1, 5).Draw(t, name)) * time.Minute
}

// genOverride draws one that is valid; without bounds of the priority if plain.
func genOverride(t *rapid.T, plain bool) override.Override {
	o := of(rapid.SampledFrom([]override.Kind{override.Boost, override.Cap, override.Freeze, override.Extend, override.Bypass}).Draw(t, "kind"))
	o.ID = fmt.Sprintf("o%d", rapid.IntRange(0, 20).Draw(t, "id"))
	o.Match.Scope = rapid.SampledFrom([]string{"db/*", "db/orders", "*s"}).Draw(t, "scope")
	if !plain && rapid.Bool().Draw(t, "below") {
		o.Match.PriorityBelow = new(genLevel(t, "limit", priority.Emergency))
	}
	maybe := func(name string) bool { return rapid.Bool().Draw(t, name) }
	switch o.Kind {
	case override.Boost, override.Cap:
		most := priority.Emergency - 1
		if o.Kind == override.Boost {
			most++
		}
		o.Priority = new(genLevel(t, "priority", most))
		if maybe("forceful") {
			o.Forceful = new(o.Kind == override.Boost)
		}
		if maybe("waiting") {
			o.WaitingTimeout = new(genDuration(t, "waiting timeout"))
		}
	case override.Extend:
		o.LeaseTimeout = new(genDuration(t, "lease timeout"))
		if maybe("waiting") {
			o.WaitingTimeout = new(genDuration(t, "waiting timeout"))
		}
		if maybe("acquire") {
			o.AcquireTimeout = new(genDuration(t, "acquire timeout"))
		}
	case override.Freeze, override.Bypass, override.Hold, override.PreemptNow, override.Pause:
	}
	return o
}

func genTerms(t *rapid.T) priority.Terms {
	terms := priority.Terms{Priority: genLevel(t, "asked", priority.Emergency-1), Forceful: rapid.Bool().Draw(t, "asked forceful"), LeaseTimeout: genDuration(t, "asked lease")}
	if rapid.Bool().Draw(t, "asked waiting") {
		terms.WaitingTimeout = new(genDuration(t, "asked waiting timeout"))
	}
	if rapid.Bool().Draw(t, "asked acquire") {
		terms.AcquireTimeout = new(genDuration(t, "asked acquire timeout") - time.Minute)
	}
	return terms
}

func genAll(t *rapid.T, plain bool) (all []override.Override) {
	seen := map[string]bool{}
	for range rapid.IntRange(0, 6).Draw(t, "n") {
		if o := genOverride(t, plain); !seen[o.ID] {
			seen[o.ID] = true
			all = append(all, o)
		}
	}
	return all
}

func text(t require.TestingT, v any) string {
	data, err := json.Marshal(v)
	require.NoError(t, err)
	return string(data)
}

var orders = override.Subject{Scope: "db/orders", Job: "nightly"}

func TestTheOrderInWhichOverridesWereGivenDoesNotMatter(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		all, asked := genAll(t, false), genTerms(t)
		want := inForce(all...).Apply(orders, asked)
		shuffled := slices.Clone(all)
		rand.New(rand.NewPCG(rapid.Uint64().Draw(t, "seed"), 1)).Shuffle(len(all), func(i, j int) { shuffled[i], shuffled[j] = shuffled[j], shuffled[i] })
		require.Equal(t, want, inForce(shuffled...).Apply(orders, asked))
	})
}

func TestApplyLeavesWhatItIsGivenAlone(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		set, asked := inForce(genAll(t, false)...), genTerms(t)
		before := text(t, set) + text(t, asked)
		e := set.Apply(orders, asked)
		for _, d := range []*time.Duration{e.Terms.WaitingTimeout, e.Terms.AcquireTimeout} {
			if d != nil && d != asked.WaitingTimeout && d != asked.AcquireTimeout {
				*d = 12345 // the owner of the result may change it
			}
		}
		require.Equal(t, before, text(t, set)+text(t, asked))
	})
}

func TestNoRequestIsAboveItsCapNorFrozenWhenItIsAnEmergency(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		set, asked := inForce(genAll(t, false)...), genTerms(t)
		e := set.Apply(orders, asked)
		if e.Bypass != nil {
			require.Equal(t, asked, e.Terms)
			require.Empty(t, e.Applied)
			require.Nil(t, e.Frozen)
			return
		}
		highest := asked.Priority
		for _, o := range set {
			if !o.Match.Fits(orders, asked.Priority) {
				continue
			}
			switch o.Kind {
			case override.Cap:
				require.LessOrEqual(t, e.Terms.Priority, *o.Priority)
				require.False(t, o.Forceful != nil && e.Terms.Forceful)
			case override.Boost:
				highest = max(highest, *o.Priority)
			case override.Extend:
				require.GreaterOrEqual(t, e.Terms.LeaseTimeout, *o.LeaseTimeout)
			case override.Freeze, override.Bypass, override.Hold, override.PreemptNow, override.Pause:
			}
		}
		require.LessOrEqual(t, e.Terms.Priority, highest)
		require.False(t, e.Frozen != nil && e.Terms.Priority == priority.Emergency)
	})
}

func TestOnlyThoseThatMakeADifferenceAreNamed(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		set, asked := inForce(genAll(t, false)...), genTerms(t)
		e := set.Apply(orders, asked)
		others := slices.DeleteFunc(slices.Clone(set), func(o override.Override) bool {
			named := slices.ContainsFunc(e.Applied, func(a override.Override) bool { return a.ID == o.ID })
			return !named && (o.Kind == override.Boost || o.Kind == override.Cap || o.Kind == override.Extend)
		})
		require.Equal(t, e, others.Apply(orders, asked))
	})
}

func TestApplyingAgainChangesNothingWithoutBoundsOfThePriority(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		set, asked := inForce(genAll(t, true)...), genTerms(t)
		once := set.Apply(orders, asked)
		require.Equal(t, once.Terms, set.Apply(orders, once.Terms).Terms)
	})
}

func TestJSONKeepsEverything(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		o := genOverride(t, false)
		require.NoError(t, o.Validate(limits()))
		var again override.Override
		require.NoError(t, json.Unmarshal([]byte(text(t, o)), &again))
		require.True(t, o.Equal(again))
	})
}

// --- patterns -------------------------------------------------------------------

// fits is the pattern as a regular expression has it.
func fits(pattern, s string) bool {
	var b strings.Builder
	for _, c := range pattern {
		switch c {
		case '*':
			b.WriteString(".*")
		case '?':
			b.WriteString(".")
		default:
			b.WriteString(regexp.QuoteMeta(string(c)))
		}
	}
	return regexp.MustCompile(`(?s)\A` + b.String() + `\z`).MatchString(s)
}

func TestPatternsFitAsTheReferenceSays(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		pattern := rapid.StringOfN(rapid.RuneFrom([]rune("ab/*?é")), 1, 12, -1).Draw(t, "pattern")
		s := rapid.StringOfN(rapid.RuneFrom([]rune("ab/é")), 0, 12, -1).Draw(t, "text")
		require.Equal(t, fits(pattern, s), override.Match{Scope: pattern}.Fits(override.Subject{Scope: s}, 0), "%q %q", pattern, s)
	})
}

func FuzzPattern(f *testing.F) {
	for _, seed := range [][2]string{{"db/*", "db/orders"}, {"*a*b?", "xaybz"}, {"", ""}, {"**", ""}, {"?", "é"}} {
		f.Add(seed[0], seed[1])
	}
	f.Fuzz(func(t *testing.T, pattern, s string) {
		if pattern == "" || len(pattern) > 500 || len(s) > 500 || strings.ContainsRune(pattern+s, '\uFFFD') || strings.ToValidUTF8(pattern+s, "") != pattern+s {
			return
		}
		require.Equal(t, fits(pattern, s), override.Match{Job: pattern}.Fits(override.Subject{Job: s}, 0))
	})
}
