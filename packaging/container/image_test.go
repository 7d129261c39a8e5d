package container

import (
	"archive/tar"
	"bytes"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"testing"
	"time"

	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/layout"
	"github.com/google/go-containerregistry/pkg/v1/types"
	"github.com/stretchr/testify/require"
)

const root = "../.."

var update = flag.Bool("update", false, "write golden files and what is generated anew, to be read in the diff")

// options are those of an image with a file in the place of the program.
func options(t *testing.T) Options {
	t.Helper()
	certificates, file := filepath.Join(t.TempDir(), "ca-certificates.crt"), filepath.Join(t.TempDir(), "lockkeeper")
	require.NoError(t, os.WriteFile(certificates, []byte("certificates\n"), 0o600))
	require.NoError(t, os.WriteFile(file, []byte("the program\n"), 0o600))
	return Options{
		Root: root, Version: version, Revision: "0123abcd", Time: time.Unix(1_700_000_000, 0).UTC(), Certificates: certificates,
		Architectures: []string{"amd64", "arm64"}, compiled: map[string]string{"amd64": file, "arm64": file},
	}
}

func images(t *testing.T, index v1.ImageIndex) (all map[string]v1.Image) {
	t.Helper()
	manifest, err := index.IndexManifest()
	require.NoError(t, err)
	require.Equal(t, types.OCIImageIndex, manifest.MediaType)
	all = map[string]v1.Image{}
	for _, m := range manifest.Manifests {
		require.Equal(t, types.OCIManifestSchema1, m.MediaType)
		image, err := index.Image(m.Digest)
		require.NoError(t, err)
		all[m.Platform.String()] = image
	}
	return all
}

func TestImageHasTheProgramAndNothingElse(t *testing.T) {
	index, err := Build(t.Context(), options(t))
	require.NoError(t, err)
	all := images(t, index)
	require.Len(t, all, 2)
	for platform, image := range all {
		file, err := image.ConfigFile()
		require.NoError(t, err)
		require.Equal(t, platform, file.OS+"/"+file.Architecture)
		text, err := json.MarshalIndent(file.Config, "", "  ")
		require.NoError(t, err)
		var got bytes.Buffer
		fmt.Fprintf(&got, "%s\n\n", text)
		eachFile(t, image, func(h *tar.Header, _ io.Reader) {
			fmt.Fprintf(&got, "%s %d:%d /%s\n", h.FileInfo().Mode(), h.Uid, h.Gid, h.Name)
			require.True(t, h.ModTime.Equal(file.Created.Time), h.Name)
		})
		golden(t, "testdata/image.golden", got.String())
	}
}

// eachFile calls f with each file of the image's only layer.
func eachFile(t *testing.T, image v1.Image, f func(h *tar.Header, r io.Reader)) {
	t.Helper()
	layers, err := image.Layers()
	require.NoError(t, err)
	require.Len(t, layers, 1)
	layer, err := layers[0].Uncompressed()
	require.NoError(t, err)
	defer layer.Close()
	r := tar.NewReader(layer)
	for {
		h, err := r.Next()
		if errors.Is(err, io.EOF) {
			return
		}
		require.NoError(t, err)
		f(h, r)
	}
}

func golden(t *testing.T, name, got string) {
	t.Helper()
	if *update {
		require.NoError(t, os.WriteFile(name, []byte(got), 0o600))
	}
	want, err := os.ReadFile(name)
	require.NoError(t, err)
	require.Equal(t, string(want), got, "go test ./... -update writes it anew")
}

// What differs between two machines must not be in the image.
func TestTwoBuildsAreTheSameImage(t *testing.T) {
	again := filepath.Join(t.TempDir(), "lockkeeper")
	require.NoError(t, compileInto(t.Context(), again))
	first, err := os.ReadFile(program(t))
	require.NoError(t, err)
	second, err := os.ReadFile(again)
	require.NoError(t, err)
	require.True(t, bytes.Equal(first, second), "two programs differ")

	var archives [][]byte
	for range 2 {
		index, err := Build(t.Context(), options(t)) // its files are at other paths
		require.NoError(t, err)
		file := filepath.Join(t.TempDir(), "image.tar")
		require.NoError(t, Write(index, file, "lockkeeper:1.2.3"))
		archive, err := os.ReadFile(file)
		require.NoError(t, err)
		archives = append(archives, archive)
	}
	require.True(t, bytes.Equal(archives[0], archives[1]), "two archives differ")
}

func TestArchiveIsALayoutOfOCI(t *testing.T) {
	index, err := Build(t.Context(), options(t))
	require.NoError(t, err)
	file, dir := filepath.Join(t.TempDir(), "image.tar"), t.TempDir()
	require.NoError(t, Write(index, file, "lockkeeper:1.2.3"))
	archive, err := os.Open(file)
	require.NoError(t, err)
	defer archive.Close()
	r := tar.NewReader(archive)
	for h, err := r.Next(); !errors.Is(err, io.EOF); h, err = r.Next() {
		require.NoError(t, err)
		data, err := io.ReadAll(r)
		require.NoError(t, err)
		name := filepath.Join(dir, filepath.FromSlash(h.Name))
		require.NoError(t, os.MkdirAll(filepath.Dir(name), 0o700))
		require.NoError(t, os.WriteFile(name, data, 0o600))
	}
	read, err := layout.ImageIndexFromPath(dir)
	require.NoError(t, err)
	top, err := read.IndexManifest()
	require.NoError(t, err)
	require.Len(t, top.Manifests, 1)
	want, err := index.Digest()
	require.NoError(t, err)
	require.Equal(t, want, top.Manifests[0].Digest)
	require.Equal(t, map[string]string{"org.opencontainers.image.ref.name": "1.2.3", "io.containerd.image.name": "lockkeeper:1.2.3"}, top.Manifests[0].Annotations)
	inner, err := read.ImageIndex(want)
	require.NoError(t, err)
	require.Len(t, images(t, inner), 2)
}
