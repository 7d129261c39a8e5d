package throughput

import "math"

// A Disk is a kind of disk that a server's transaction log may be on, with how
// many locks per second another implementation of a lock reached on it. The
// figures say how the kinds relate, not what Lockkeeper does on them.
type Disk struct {
	Kind    string
	Windows float64 // 0: not measured
	Linux   float64
}

// Disks returns the kinds, the slowest first.
func Disks() []Disk {
	return []Disk{
		{Kind: "HDD SATA", Windows: 30, Linux: 45},
		{Kind: "SSD SATA", Windows: 110, Linux: 400},
		{Kind: "SSD NVMe", Linux: 1300},
		{Kind: "tmpfs", Linux: 2300},
	}
}

// Resembles returns the kind of disk, under Linux, whose figure is nearest to
// that of a single client with a lock of its own: one client waits for the disk
// twice in each cycle, while several share each wait. "" when it was not
// measured.
func (r Result) Resembles() string {
	for _, row := range r.Rows {
		if row.Measure == Own && row.Clients == 1 && row.PerSecond > 0 {
			return nearest(row.PerSecond).Kind
		}
	}
	return ""
}

// nearest compares ratios: 100 is nearer to 45 than to 400.
func nearest(perSecond float64) (best Disk) {
	least := math.Inf(1)
	for _, d := range Disks() {
		if off := math.Abs(math.Log(perSecond / d.Linux)); off < least {
			least, best = off, d
		}
	}
	return best
}
