package container

import (
	"archive/tar"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"os/exec"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"time"

	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/empty"
	"github.com/google/go-containerregistry/pkg/v1/layout"
	"github.com/google/go-containerregistry/pkg/v1/mutate"
	"github.com/google/go-containerregistry/pkg/v1/tarball"
	"github.com/google/go-containerregistry/pkg/v1/types"
)

// Options say which image Build makes.
type Options struct {
	// Root is the directory with the Dockerfile and the sources.
	Root string

	// Version is that of the program, such as 0.1.0; Revision is the commit.
	Version, Revision string

	// Time is that of the image and of each file in it. The same options and sources make
	// the same bytes.
	Time time.Time

	// Certificates is the file that stands for the build stage's certificates of public
	// authorities.
	Certificates string

	// Architectures are those of Go; one image each.
	Architectures []string

	compiled map[string]string // programs by architecture; what is here is not compiled
}

// Build compiles the program for each architecture as the Dockerfile does, and returns the
// index of the images.
func Build(ctx context.Context, o Options) (v1.ImageIndex, error) {
	recipe, err := Read(filepath.Join(o.Root, "Dockerfile"),
		map[string]string{"VERSION": o.Version, "REVISION": o.Revision})
	if err != nil {
		return nil, err
	}
	index := mutate.IndexMediaType(empty.Index, types.OCIImageIndex)
	for _, arch := range o.Architectures {
		image, err := o.image(ctx, recipe, arch)
		if err != nil {
			return nil, fmt.Errorf("image for linux/%s: %w", arch, err)
		}
		index = mutate.AppendManifests(index, mutate.IndexAddendum{
			Add: image, Descriptor: v1.Descriptor{Platform: &v1.Platform{OS: "linux", Architecture: arch}},
		})
	}
	return index, nil
}

func (o *Options) image(ctx context.Context, r *Recipe, arch string) (v1.Image, error) {
	dir, err := os.MkdirTemp("", "lockkeeper-image-")
	if err != nil {
		return nil, err
	}
	defer func() { _ = os.RemoveAll(dir) }()
	program, done := o.compiled[arch]
	if !done {
		program = filepath.Join(dir, "lockkeeper")
		if err := o.compile(ctx, r, arch, program); err != nil {
			return nil, err
		}
	}
	packed, err := o.pack(r, map[string]string{built: program, "/etc/ssl/certs/ca-certificates.crt": o.Certificates})
	if err != nil {
		return nil, err
	}
	open := func() (io.ReadCloser, error) { return io.NopCloser(bytes.NewReader(packed)), nil }
	layer, err := tarball.LayerFromOpener(open, tarball.WithMediaType(types.OCILayer))
	if err != nil {
		return nil, err
	}
	image := mutate.ConfigMediaType(mutate.MediaType(empty.Image, types.OCIManifestSchema1), types.OCIConfigJSON)
	if image, err = mutate.AppendLayers(image, layer); err != nil {
		return nil, err
	}
	file, err := image.ConfigFile()
	if err != nil {
		return nil, err
	}
	file = file.DeepCopy()
	file.Architecture, file.OS, file.Config, file.Created = arch, "linux", r.Config, v1.Time{Time: o.Time}
	file.History = []v1.History{{Created: v1.Time{Time: o.Time}, CreatedBy: "Dockerfile"}}
	return mutate.ConfigFile(image, file)
}

// built is where the Dockerfile's build puts the program.
const built = "/lockkeeper"

// compile runs the build of the Dockerfile, but for where its result goes.
func (o *Options) compile(ctx context.Context, r *Recipe, arch, program string) error {
	before, after, found := strings.Cut(r.Build, "-o "+built+" ")
	if !found {
		return fmt.Errorf("the Dockerfile does not build %s: %s", built, r.Build)
	}
	cmd := exec.CommandContext(ctx, "/bin/sh", "-euc", before+`-o "$PROGRAM" `+after)
	cmd.Dir = o.Root
	cmd.Env = append(os.Environ(), "PROGRAM="+program, "TARGETOS=linux", "TARGETARCH="+arch,
		"VERSION="+o.Version, "GOFLAGS=")
	if out, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("%s: %w\n%s", cmd.Args[2], err, out)
	}
	return nil
}

// pack returns the layer: the copies and the directories that they and the program are in.
func (o *Options) pack(r *Recipe, from map[string]string) ([]byte, error) {
	var buffer bytes.Buffer
	w := tar.NewWriter(&buffer)
	for _, dir := range directories(r) {
		err := w.WriteHeader(&tar.Header{
			Typeflag: tar.TypeDir, Name: strings.TrimPrefix(dir, "/") + "/", Mode: 0o755, ModTime: o.Time,
			Format: tar.FormatPAX,
		})
		if err != nil {
			return nil, err
		}
	}
	for _, c := range slices.SortedFunc(slices.Values(r.Copies), func(a, b Copy) int {
		return strings.Compare(a.To, b.To)
	}) {
		source, known := from[c.From]
		if !known {
			return nil, fmt.Errorf("nothing is known of %s of the first stage", c.From)
		}
		data, err := os.ReadFile(source)
		if err != nil {
			return nil, err
		}
		header := &tar.Header{
			Typeflag: tar.TypeReg, Name: strings.TrimPrefix(c.To, "/"), Size: int64(len(data)), Mode: c.Mode, ModTime: o.Time,
			Format: tar.FormatPAX,
		}
		if err := w.WriteHeader(header); err != nil {
			return nil, err
		}
		if _, err := w.Write(data); err != nil {
			return nil, err
		}
	}
	err := w.Close()
	return buffer.Bytes(), err
}

// directories are sorted: each comes after the one that it is in.
func directories(r *Recipe) (all []string) {
	add := func(dir string) {
		for ; dir != "/" && dir != "."; dir = path.Dir(dir) {
			all = append(all, dir)
		}
	}
	add(r.Config.WorkingDir)
	for _, c := range r.Copies {
		add(path.Dir(c.To))
	}
	slices.Sort(all)
	return slices.Compact(all)
}

// Write writes the images as an archive in the layout of OCI, which docker load, podman load
// and skopeo copy oci-archive:FILE read. name is what they are called then.
func Write(index v1.ImageIndex, file, name string) error {
	dir, err := os.MkdirTemp("", "lockkeeper-layout-")
	if err != nil {
		return err
	}
	defer func() { _ = os.RemoveAll(dir) }()
	to, err := layout.Write(dir, empty.Index)
	if err != nil {
		return err
	}
	_, tag, _ := strings.Cut(name, ":")
	err = to.AppendIndex(index, layout.WithAnnotations(map[string]string{
		"org.opencontainers.image.ref.name": tag, "io.containerd.image.name": name,
	}))
	if err != nil {
		return err
	}
	if err := os.MkdirAll(filepath.Dir(file), 0o755); err != nil {
		return err
	}
	out, err := os.Create(file)
	if err != nil {
		return err
	}
	return errors.Join(archive(dir, out), out.Close())
}

// archive writes the files below dir in the order of their names, without what differs from
// one machine to the next.
func archive(dir string, out io.Writer) error {
	w := tar.NewWriter(out)
	err := filepath.WalkDir(dir, func(name string, entry fs.DirEntry, err error) error {
		if err != nil || entry.IsDir() {
			return err
		}
		relative, err := filepath.Rel(dir, name)
		if err != nil {
			return err
		}
		data, err := os.ReadFile(name)
		if err != nil {
			return err
		}
		if err := w.WriteHeader(&tar.Header{
			Typeflag: tar.TypeReg, Name: filepath.ToSlash(relative), Size: int64(len(data)), Mode: 0o644,
		}); err != nil {
			return err
		}
		_, err = w.Write(data)
		return err
	})
	return errors.Join(err, w.Close())
}
