package main

import (
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"sigs.k8s.io/kustomize/api/krusty"
	"sigs.k8s.io/kustomize/kyaml/filesys"
)

func main() {
	out := flag.String("out", ".", "`directory` to write into")
	flag.Parse()
	if err := write(flag.Arg(0), *out); err != nil {
		fmt.Fprintln(os.Stderr, "manifests:", err)
		os.Exit(1)
	}
}

func write(dir, out string) error {
	resources, err := krusty.MakeKustomizer(krusty.MakeDefaultOptions()).Run(filesys.MakeFsOnDisk(), dir)
	if err != nil {
		return err
	}
	for _, r := range resources.Resources() {
		text, err := r.AsYAML()
		if err != nil {
			return err
		}
		name := strings.ToLower(r.GetKind()) + "-" + r.GetName() + ".yaml"
		if err := os.WriteFile(filepath.Join(out, name), text, 0o600); err != nil {
			return err
		}
	}
	return nil
}
