//go:build race

package emergency

const raceEnabled = true
