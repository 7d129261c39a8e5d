// Command licenses prints the licences of all that is linked into the program, for the file
// THIRD_PARTY_LICENSES of a release. It fails for a module without a licence, and for a kind of
// licence that is not on its list.
package main

import (
	"fmt"
	"os"
	"strings"
)

func main() {
	all, err := linked()
	if err == nil {
		err = write(os.Stdout, all)
	}
	if err != nil {
		_, _ = fmt.Fprintln(os.Stderr, "licenses: "+strings.ReplaceAll(err.Error(), "\n", "\nlicenses: "))
		os.Exit(1)
	}
}
