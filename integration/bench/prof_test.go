package bench

import (
	"fmt"
	"os"
	"slices"
	"strconv"
	"testing"
	"time"
)

func BenchmarkProf(b *testing.B) {
	onServers(b, func(b *testing.B, server string) {
		clients, _ := strconv.Atoi(os.Getenv("CLIENTS"))
		own := func(client int) string { return "one" }
		cs := []contestant{peer, product}
		if os.Getenv("OWN") != "" {
			own = func(client int) string { return fmt.Sprintf("own-%d", client) }
			cs = []contestant{raw, peer, product}
		}
		n, _ := strconv.Atoi(os.Getenv("N"))
		for b.Loop() {
			var cyc []func(int, string, func()) error
			for _, c := range cs {
				cyc = append(cyc, c.setup(b, server, clients))
			}
			res := map[string][]float64{}
			for i := range n + 10 {
				for j, c := range cs {
					r := run(b, cyc[j], clients, own, nothing, 500*time.Millisecond)
					if i >= 10 {
						res[c.name] = append(res[c.name], r)
					}
				}
			}
			last := cs[len(cs)-1].name
			slices.Sort(res[last])
			for _, c := range cs {
				slices.Sort(res[c.name])
				fmt.Println(c.name, res[c.name][n/2], "ratio", res[last][n/2]/res[c.name][n/2])
			}
		}
	})
}
