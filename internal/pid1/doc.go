// Package pid1 lets a program be process 1 of a container.
//
// The one idea: process 1 gets the orphans of all others and has to reap them, and
// the kernel spares it signals that it does not handle. A program that also waits for
// its own children cannot do both: what reaps every child takes the exit status from
// [os/exec]. So process 1 starts the same program once more, as an ordinary process,
// and is nothing but the init of that: it passes signals on, reaps whatever ends, and
// ends with the status of its child, upon which the kernel kills what is left.
//
//	func main() {
//		code, ended, err := pid1.Run(os.Args)
//		if err != nil {
//			fmt.Fprintln(os.Stderr, err)
//		}
//		if ended {
//			os.Exit(code)
//		}
//		os.Exit(run(os.Args[1:]))
//	}
//
// Elsewhere than on Linux, and in any other process, Run does nothing.
package pid1
