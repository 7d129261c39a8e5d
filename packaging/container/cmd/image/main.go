package main

import (
	"context"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"path/filepath"
	"strings"
	"time"

	"github.com/lockkeeper/lockkeeper/packaging/container"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	err := run(ctx)
	stop()
	if err != nil {
		fmt.Fprintln(os.Stderr, "image:", err)
		os.Exit(1)
	}
}

func run(ctx context.Context) error {
	o := container.Options{}
	flag.StringVar(&o.Root, "root", ".", "`directory` of the repository")
	flag.StringVar(&o.Version, "version", "0.0.0-devel", "of the program, such as 0.1.0")
	flag.StringVar(&o.Revision, "revision", "unknown", "commit")
	flag.StringVar(&o.Certificates, "certificates", "/etc/ssl/certs/ca-certificates.crt",
		"`file` with the certificates of public authorities")
	architectures := flag.String("architectures", "amd64,arm64", "of Linux, separated by commas")
	epoch := flag.Int64("time", 0, "of the image, in `seconds` since 1970; the same makes the same image")
	out := flag.String("out", "",
		"`file` to write, an archive in the layout of OCI (default ROOT/dist/lockkeeper-VERSION.oci.tar)")
	name := flag.String("name", "", "what the image is called when it is loaded (default lockkeeper:VERSION)")
	flag.Parse()
	if flag.NArg() > 0 {
		return fmt.Errorf("unexpected argument %q", flag.Arg(0))
	}
	o.Time, o.Architectures = time.Unix(*epoch, 0).UTC(), strings.Split(*architectures, ",")
	if *out == "" {
		*out = filepath.Join(o.Root, "dist", "lockkeeper-"+o.Version+".oci.tar")
	}
	if *name == "" {
		*name = "lockkeeper:" + o.Version
	}
	index, err := container.Build(ctx, o)
	if err != nil {
		return err
	}
	digest, err := index.Digest()
	if err != nil {
		return err
	}
	if err := container.Write(index, *out, *name); err != nil {
		return err
	}
	fmt.Println(*out, *name, digest)
	return nil
}
