package console

import (
	"context"
	_ "embed"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/chromedp/cdproto/emulation"
	"github.com/chromedp/cdproto/log"
	"github.com/chromedp/cdproto/page"
	"github.com/chromedp/cdproto/runtime"
	"github.com/chromedp/chromedp"
	"github.com/chromedp/chromedp/kb"
	"github.com/stretchr/testify/require"

	"github.com/lockkeeper/lockkeeper/integration/internal/harness"
)

// A tab shows pages of one console, with cookies of its own.
type tab struct {
	*testing.T
	ctx  context.Context
	base string

	still bool // no page runs JavaScript: nothing moves, and no click is heard

	mu      sync.Mutex
	said    []string // what is not expected in its console
	allowed []string
}

// open opens a tab of a browser that has never been here. What it complains about
// fails the test.
func open(t *testing.T, base string) *tab {
	t.Helper()
	ctx, cancel := chromedp.NewContext(chromium, chromedp.WithNewBrowserContext())
	b := &tab{T: t, ctx: ctx, base: base}
	require.NoError(t, chromedp.Listen(ctx, b.listen))
	t.Cleanup(func() {
		cancel()
		b.mu.Lock()
		defer b.mu.Unlock()
		for _, s := range b.said {
			t.Errorf("the browser complains: %s", s)
		}
	})
	// What the policy forbids is an entry of the log as well; this has the directive.
	_, err := chromedp.Call(ctx, page.AddScriptToEvaluateOnNewDocument, page.AddScriptToEvaluateOnNewDocumentParams{
		Source: `document.addEventListener("securitypolicyviolation", e => console.error("policy violated: " + e.violatedDirective + " " + e.blockedURI + " " + e.sample))`,
	})
	require.NoError(t, err)
	// Tabs of other tests are open at the same time: each is as if it were in front.
	_, err = chromedp.Call(ctx, emulation.SetFocusEmulationEnabled, emulation.SetFocusEmulationEnabledParams{Enabled: true})
	require.NoError(t, err)
	b.size(1280, 900)
	return b
}

// listen is called by the goroutine that reads from the browser.
func (b *tab) listen(event any) {
	var text string
	switch e := event.(type) {
	case *runtime.EventConsoleAPICalled:
		var words []string
		for _, a := range e.Args {
			words = append(words, string(a.Value)+a.Description)
		}
		text = fmt.Sprintf("console.%s %s", e.Type, strings.Join(words, " "))
	case *runtime.EventExceptionThrown:
		text = fmt.Sprintf("exception: %s", e.ExceptionDetails.Text)
		if x := e.ExceptionDetails.Exception; x != nil {
			text += " " + x.Description
		}
	case *log.EventEntryAdded:
		text = fmt.Sprintf("%s, %s: %s %s", e.Entry.Source, e.Entry.Level, e.Entry.Text, e.Entry.URL)
	default:
		return
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	for _, a := range b.allowed {
		if strings.Contains(text, a) {
			return
		}
	}
	b.said = append(b.said, text)
}

// allow lets the browser say that something was refused, which the test is about.
func (b *tab) allow(part string) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.allowed = append(b.allowed, part)
}

// within returns a context of the tab that ends when a step takes too long.
func (b *tab) within() (context.Context, context.CancelFunc) {
	return context.WithTimeout(b.ctx, harness.Patience)
}

func (b *tab) do(steps ...chromedp.Action[chromedp.Void]) {
	b.Helper()
	ctx, cancel := b.within()
	defer cancel()
	require.NoError(b, chromedp.Do(ctx, steps...), "at %s", b.base)
}

// visit goes to a page, and returns when it is there.
func (b *tab) visit(path string) {
	b.Helper()
	b.do(chromedp.Navigate(b.base + path))
}

func (b *tab) size(width, height int64) {
	b.Helper()
	b.do(chromedp.EmulateViewport(width, height))
}

// scheme is how the person has set the system: light or dark.
func (b *tab) scheme(name string) {
	b.Helper()
	ctx, cancel := b.within()
	defer cancel()
	_, err := chromedp.Call(ctx, emulation.SetEmulatedMedia, emulation.SetEmulatedMediaParams{
		Features: []*emulation.MediaFeature{{Name: "prefers-color-scheme", Value: name}, {Name: "prefers-reduced-motion", Value: "reduce"}},
	})
	require.NoError(b, err)
}

// withoutJavaScript is a browser in which pages cannot run any.
func (b *tab) withoutJavaScript() {
	b.Helper()
	ctx, cancel := b.within()
	defer cancel()
	_, err := chromedp.Call(ctx, emulation.SetScriptExecutionDisabled, emulation.SetScriptExecutionDisabledParams{Value: true})
	require.NoError(b, err)
	b.still = true
}

// ask returns what an expression is in the page.
func ask[T any](b *tab, expression string) T {
	b.Helper()
	ctx, cancel := b.within()
	defer cancel()
	is, err := chromedp.Run(ctx, chromedp.Evaluate[T](expression))
	require.NoError(b, err, "%s", expression)
	return is
}

// until waits until an expression is true in the page.
func (b *tab) until(what, expression string) {
	b.Helper()
	tick := time.NewTicker(20 * time.Millisecond)
	defer tick.Stop()
	deadline := time.Now().Add(harness.Patience)
	for {
		ctx, cancel := b.within()
		// A page that is about to be replaced by the next one has no answer.
		is, err := chromedp.Run(ctx, chromedp.Evaluate[bool]("!!("+expression+")"))
		cancel()
		if err == nil && is {
			return
		}
		if time.Now().After(deadline) {
			text, _ := chromedp.Run(b.ctx, chromedp.Evaluate[string]("location.href + '\\n' + document.body.innerText"))
			require.Fail(b, "not seen: "+what, "%v; the page:\n%s", err, text)
		}
		<-tick.C
	}
}

// shows waits until the page has a text.
func (b *tab) shows(text string) {
	b.Helper()
	b.until(fmt.Sprintf("%q", text), "document.body && document.body.innerText.includes("+quoted(text)+")")
}

// live waits until the page is kept up to date.
func (b *tab) live() {
	b.Helper()
	b.until("a page that is live", `document.querySelector('#pulse[data-state="live"]')`)
}

// click clicks on the link or button with a text, as somebody who reads it; on that
// in the content if there is another one in the menu.
func (b *tab) click(text string) {
	b.Helper()
	find := `[...document.querySelectorAll("a, button, label")].filter(e => e.innerText.trim() === ` + quoted(text) + ` && e.getClientRects().length).filter((e, i, all) => e.closest("main") || !all.some(o => o.closest("main")))`
	b.until("a link or a button "+quoted(text), find+".length")
	require.Equal(b, 1, ask[int](b, find+".length"), "%q is there once", text)
	// Where it is when it does not move any more, and nothing is before it.
	const place = `(e => {
		if (!e) return [];
		e.scrollIntoView({block: "center"});
		const r = e.getClientRects()[0], x = r.x + r.width / 2, y = r.y + r.height / 2, top = document.elementFromPoint(x, y);
		return document.readyState === "complete" && (e === top || e.contains(top)) ? [x, y] : [];
	})`
	// An update of the page between the look and the click may put something else there.
	const watch = `(e => { window.clicked = false; e?.addEventListener("click", () => { window.clicked = true }); return !!e })`
	harness.Eventually(b, func() bool {
		at := ask[[]float64](b, place+"("+find+"[0])")
		<-time.After(20 * time.Millisecond)
		if after := ask[[]float64](b, place+"("+find+"[0])"); len(at) != 2 || !slices.Equal(at, after) {
			return false
		}
		if !b.still && !ask[bool](b, watch+"("+find+"[0])") {
			return false
		}
		b.do(chromedp.MouseClickXY(at[0], at[1]))
		return b.still || b.whether("window.clicked !== false")
	}, "%q is clicked on", text)
}

// whether returns whether an expression is true in the page, or in the next one if it is about to be replaced.
func (b *tab) whether(expression string) (is bool) {
	b.Helper()
	harness.Eventually(b, func() bool {
		ctx, cancel := b.within()
		defer cancel()
		var err error
		is, err = chromedp.Run(ctx, chromedp.Evaluate[bool](expression))
		return err == nil
	}, "%s", expression)
	return is
}

// write writes into the field with a label, after what is there.
func (b *tab) write(label, text string) {
	b.Helper()
	find := `[...document.querySelectorAll("label")].find(l => l.innerText.trim().startsWith(` + quoted(label) + `))`
	// A browser that still loads a page gives the focus to what its address names.
	b.until("a field "+quoted(label), `document.readyState === "complete" && `+find)
	ask[bool](b, "("+find+".control.focus(), true)")
	b.do(chromedp.KeyEvent(kb.End), chromedp.KeyEvent(text))
	if is := ask[string](b, find+".control.value"); !strings.HasSuffix(is, text) {
		require.Fail(b, "what was typed is not there", "field %q: typed %q, there is %q; the focus is at %s", label, text, is, ask[string](b, "document.activeElement.outerHTML.slice(0, 200)"))
	}
}

// press presses keys, as written: "\t" is the tabulator, "\r" Enter.
func (b *tab) press(keys string) {
	b.Helper()
	b.do(chromedp.KeyEvent(keys))
}

func quoted(text string) string {
	data, err := json.Marshal(text)
	if err != nil {
		panic(err) // a text is always JSON
	}
	return string(data)
}

// script runs something in the page, whatever it returns.
func script(code string) chromedp.Action[chromedp.Void] {
	return chromedp.Func(func(ctx context.Context, t *chromedp.Target) error {
		_, err := chromedp.Evaluate[bool]("((() => {"+code+"})(), true)")(ctx, t)
		return err
	})
}

// signIn signs ana in.
func signIn(b *tab) {
	b.Helper()
	b.visit("/sign-in")
	b.write("Name", "ana")
	b.write("Password", password)
	b.press("\r")
	b.until("somebody is signed in", `location.pathname === "/" && document.querySelector(".me")?.innerText.includes("ana")`)
}
