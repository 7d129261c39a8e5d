package opstore

import (
	"bytes"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/lockkeeper/lockkeeper/override"
	"github.com/lockkeeper/lockkeeper/recipes/internal/znode"
)

// boardRecord is the data of the node.
type boardRecord struct {
	Format int          `json:"format"`
	Posted []boardEntry `json:"overrides"`
}

type boardEntry struct {
	Override override.Override `json:"override"`
	By       string            `json:"posted_by"`
	At       time.Time         `json:"posted_at"`
	Write    string            `json:"write"` // the call that posted it
}

func decodeBoard(data []byte) (boardRecord, error) {
	rec := boardRecord{Format: znode.RecordFormat}
	if len(bytes.TrimSpace(data)) == 0 {
		return rec, nil
	}
	rec.Format = 0 // it has to say
	if err := znode.Decode(data, &rec, &rec.Format); err != nil {
		return boardRecord{}, err
	}
	return rec, nil
}

func (r *boardRecord) encode() ([]byte, error) {
	slices.SortFunc(r.Posted, func(a, b boardEntry) int { return strings.Compare(a.Override.ID, b.Override.ID) })
	r.Format = znode.RecordFormat
	data, err := json.Marshal(r)
	if err == nil && len(data) > maxOverridesBytes {
		return nil,
			fmt.Errorf("all overrides together would take %d bytes, more than %d; clear some (lockkeeper override ls)",
				len(data), maxOverridesBytes)
	}
	return data, err
}

func (r *boardRecord) find(id string) int {
	return slices.IndexFunc(r.Posted, func(e boardEntry) bool { return e.Override.ID == id })
}

// drop removes what has ended.
func (r *boardRecord) drop(now time.Time) {
	r.Posted = slices.DeleteFunc(r.Posted, func(e boardEntry) bool { return !now.Before(e.Override.Until) })
}

func (r *boardRecord) ids() (ids []string) {
	for _, e := range r.Posted {
		ids = append(ids, e.Override.ID)
	}
	return ids
}

func (r *boardRecord) posted() []PostedOverride {
	posted := make([]PostedOverride, 0, len(r.Posted))
	for _, e := range r.Posted {
		posted = append(posted, PostedOverride{Override: e.Override, PostedBy: e.By, PostedAt: e.At})
	}
	return posted
}

// CheckOverrides returns a *RecordError for data of the board that cannot be read.
func CheckOverrides(data []byte) error {
	_, err := decodeBoard(data)
	return err
}
