package console

import (
	"bytes"
	"crypto/sha256"
	"embed"
	"encoding/hex"
	"io/fs"
	"net/http"
	"path"
	"strings"
	"time"

	"github.com/lockkeeper/lockkeeper/observability/picture"
)

// What browsers load. htmx.min.js and hx-sse.min.js are those of the package
// htmx.org, unchanged; scripts/htmx.sh fetches them. Its licence is beside them.
//
//go:embed static/*.css static/*.js static/*.svg
var staticFiles embed.FS

// assets are files by a name that has their hash in it: what a page names never
// changes, so that browsers may keep it.
type assets struct {
	named  map[string]string // console.css: /static/console.3f29c1d0.css
	served map[string]asset  // by what comes after /static/
}

type asset struct {
	name string
	data []byte
}

func newAssets() (*assets, error) {
	a := &assets{named: map[string]string{}, served: map[string]asset{}}
	files, err := fs.Glob(staticFiles, "static/*")
	if err != nil {
		return nil, err
	}
	for _, file := range files {
		data, err := staticFiles.ReadFile(file)
		if err != nil {
			return nil, err
		}
		name := path.Base(file)
		if name == "console.css" {
			data = append([]byte(picture.Stylesheet()), data...) // so that the console's own rules go before
		}
		sum := sha256.Sum256(data)
		ext := path.Ext(name)
		hashed := strings.TrimSuffix(name, ext) + "." + hex.EncodeToString(sum[:6]) + ext
		a.named[name] = "/static/" + hashed
		a.served[hashed] = asset{name: name, data: data}
	}
	return a, nil
}

// url returns where a file is.
func (a *assets) url(name string) string { return a.named[name] }

func (a *assets) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	file, ok := a.served[r.PathValue("file")]
	if !ok {
		http.Error(w, "there is no such file; load the page again", http.StatusNotFound)
		return
	}
	w.Header().Set("Cache-Control", "public, max-age=31536000, immutable")
	http.ServeContent(w, r, file.name, time.Time{}, bytes.NewReader(file.data))
}
