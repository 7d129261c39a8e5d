package bugs

import (
	"bytes"
	"encoding/json"
	"errors"
	"go/ast"
	"go/importer"
	"go/parser"
	"go/token"
	"go/types"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestEachMarkerIsOfABug(t *testing.T) {
	files, err := markedFiles()
	require.NoError(t, err)
	for path, text := range files {
		for _, part := range marker.FindAllStringSubmatch(text, -1) {
			_, ok := Named(part[2])
			require.True(t, ok, "%s has a marker of bug %q, which is none", path, part[2])
		}
	}
}

func TestEachBugHasItsPlacesAndCompiles(t *testing.T) {
	compiler := newCompiler(t)
	for _, b := range All() {
		t.Run(b.Name, func(t *testing.T) {
			require.NotEmpty(t, b.What)
			changed, err := plant(b)
			require.NoError(t, err)
			compiler.compile(t, changed)

			b.Places++
			_, err = Lay(t.TempDir(), b)
			require.ErrorContains(t, err, "markers of bug "+b.Name)
		})
	}
}

func TestLaidFilesReplaceThoseOfTheProduct(t *testing.T) {
	b, ok := Named("dead-waiter-goes-on")
	require.True(t, ok)
	changed, err := plant(b)
	require.NoError(t, err)
	overlay, err := Lay(t.TempDir(), b)
	require.NoError(t, err)
	var laid struct{ Replace map[string]string }
	text, err := os.ReadFile(overlay)
	require.NoError(t, err)
	require.NoError(t, json.Unmarshal(text, &laid))
	require.Len(t, laid.Replace, len(changed))
	for path, at := range laid.Replace {
		text, err := os.ReadFile(at)
		require.NoError(t, err)
		require.Equal(t, changed[path], string(text))
	}
}

// compiler checks the types of packages with some files replaced. Of the other files it knows what they declare alone: a
// whole check of each bug takes minutes with the race detector.
type compiler struct {
	set      *token.FileSet
	packages map[string]listed // by directory
	imports  types.Importer
	outlines map[string]*ast.File // by path
}

type listed struct {
	Dir, ImportPath, Export string
	GoFiles                 []string
}

func newCompiler(t *testing.T) *compiler {
	files, err := markedFiles()
	require.NoError(t, err)
	// With the race detector, as the suite is: then all is compiled already.
	arguments := []string{"list", "-race", "-export", "-deps", "-json=Dir,ImportPath,Export,GoFiles"}
	for path := range files {
		if dir := filepath.Dir(path); !slices.Contains(arguments, dir) {
			arguments = append(arguments, dir)
		}
	}
	root, err := Root()
	require.NoError(t, err)
	cmd := exec.CommandContext(t.Context(), "go", arguments...)
	cmd.Dir = root
	out, err := cmd.Output()
	require.NoError(t, err)
	c := &compiler{set: token.NewFileSet(), packages: make(map[string]listed), outlines: make(map[string]*ast.File)}
	exports := make(map[string]string)
	for decoder := json.NewDecoder(bytes.NewReader(out)); ; {
		var p listed
		if err := decoder.Decode(&p); errors.Is(err, io.EOF) {
			break
		} else {
			require.NoError(t, err)
		}
		c.packages[p.Dir], exports[p.ImportPath] = p, p.Export
	}
	c.imports = importer.ForCompiler(c.set, "gc", func(path string) (io.ReadCloser, error) { return os.Open(exports[path]) })
	return c
}

// outline is a file without the bodies of its functions.
func (c *compiler) outline(t *testing.T, path string) *ast.File {
	if c.outlines[path] == nil {
		file, err := parser.ParseFile(c.set, path, nil, parser.SkipObjectResolution)
		require.NoError(t, err)
		for _, d := range file.Decls {
			if f, ok := d.(*ast.FuncDecl); ok {
				f.Body = nil
			}
		}
		c.outlines[path] = file
	}
	return c.outlines[path]
}

func (c *compiler) compile(t *testing.T, changed map[string]string) {
	dirs := make(map[string]bool)
	for path := range changed {
		dirs[filepath.Dir(path)] = true
	}
	for dir := range dirs {
		var files []*ast.File
		for _, name := range c.packages[dir].GoFiles {
			if path := filepath.Join(dir, name); changed[path] == "" {
				files = append(files, c.outline(t, path))
			}
		}
		for path, text := range changed {
			if filepath.Dir(path) == dir {
				file, err := parser.ParseFile(c.set, path, text, parser.SkipObjectResolution)
				require.NoError(t, err)
				files = append(files, file)
			}
		}
		var wrong []error
		config := types.Config{Importer: c.imports, Error: func(err error) {
			var at types.Error
			require.ErrorAs(t, err, &at)
			if _, ok := changed[c.set.Position(at.Pos).Filename]; ok { // outlines use nothing that they import
				wrong = append(wrong, err)
			}
		}}
		_, _ = config.Check(c.packages[dir].ImportPath, c.set, files, nil)
		require.Empty(t, wrong)
	}
}
