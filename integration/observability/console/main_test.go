package console

import (
	"cmp"
	"context"
	"flag"
	"fmt"
	"os"
	"testing"

	"github.com/chromedp/chromedp"

	"github.com/lockkeeper/lockkeeper/integration/internal/harness"
	"github.com/lockkeeper/lockkeeper/integration/testbed"
)

var (
	shared   testbed.Shared
	program  string          // its path
	chromium context.Context // of the browser: each tab is a child of it
	pictures = flag.String("pictures", "", "keep pictures of all pages in this `directory`")
)

func TestMain(m *testing.M) { os.Exit(run(m)) }

func run(m *testing.M) int {
	flag.Parse()
	options := append(chromedp.DefaultExecAllocatorOptions[:],
		chromedp.ExecPath(cmp.Or(os.Getenv("CHROMIUM"), "/usr/bin/chromium")), chromedp.NoSandbox, chromedp.DisableGPU,
		// A page that was left is gone, and answers no question: it is not kept for the way back.
		chromedp.Flag("disable-features", "Translate,BlinkGenPropertyTrees,BackForwardCache"))
	allocator, end := chromedp.NewExecAllocator(context.Background(), options...)
	defer end()
	var closed context.CancelFunc
	chromium, closed = chromedp.NewContext(allocator)
	defer closed()
	if err := chromedp.Do(chromium); err != nil { // starts it
		fmt.Fprintf(os.Stderr, "Chromium does not start: %v; make setup installs it\n", err)
		return 1
	}
	return harness.WithProgram(func(path string) int { program = path; return shared.Main(m) })
}
