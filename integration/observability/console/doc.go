// Package console lets a real browser, headless Chromium, look at the console of
// locks, and do with it what people do.
//
// The one idea: what is claimed of a page is asked of the browser that shows it.
// Locks are real, contended for on a ZooKeeper server (package testbed); what the
// page says is read from its document, contrast from its computed styles, and
// what somebody did there is looked up in the audit trail. A tab that has written
// anything into its console, or was kept from something by the content security
// policy, fails its test.
//
// It is a module of its own, for what drives the browser. CHROMIUM names another
// program than Debian's /usr/bin/chromium. With
//
//	go test -run TestPages$ -args -pictures DIR
//
// all pages are kept as pictures: in both colour schemes, as wide as a desk and a
// telephone have them. Look at them whenever you have changed the style.
package console
