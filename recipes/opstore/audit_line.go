package opstore

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strings"

	"github.com/lockkeeper/lockkeeper/internal/words"
	"github.com/lockkeeper/lockkeeper/recipes/internal/znode"
)

// The texts of an entry are cut where they are longer than this, in bytes, and
// end in "…" then: a record lives in ZooKeeper's memory.
const (
	maxAuditText    = 1000 // Reason, Error
	maxAuditName    = 256  // By, Job, Scope, names and values of Before and After
	maxAuditOwner   = 120  // of a party
	maxAuditChanges = 32   // of Before and After, by name
	maxAuditVictims = 100
)

// fit returns the entry with its texts cut.
func (e AuditEntry) fit() AuditEntry {
	for _, text := range []*string{&e.Act, &e.Scope, &e.Job, &e.By, &e.Override, &e.Approval} {
		*text = words.Clip(strings.ToValidUTF8(*text, "�"), maxAuditName)
	}
	e.Reason = words.Clip(strings.ToValidUTF8(e.Reason, "�"), maxAuditText)
	e.Error = words.Clip(strings.ToValidUTF8(e.Error, "�"), maxAuditText)
	if e.Requestor != nil {
		e.Requestor = new(e.Requestor.fit())
	}
	if n := len(e.Victims); n > maxAuditVictims {
		note := fmt.Sprintf("%d more victims are left out", n-maxAuditVictims)
		e.Victims, e.Error = e.Victims[:maxAuditVictims], strings.TrimPrefix(e.Error+"; "+note, "; ")
	}
	var victims []AuditParty
	for _, v := range e.Victims {
		victims = append(victims, v.fit())
	}
	e.Victims = victims
	e.Before, e.After = fitChanges(e.Before), fitChanges(e.After)
	return e
}

func (p AuditParty) fit() AuditParty {
	p.ID = words.Clip(p.ID, maxAuditOwner)
	p.Owner = words.Clip(strings.ToValidUTF8(p.Owner, "�"), maxAuditOwner)
	p.Host = words.Clip(strings.ToValidUTF8(p.Host, "�"), maxAuditName)
	return p
}

func fitChanges(all map[string]string) map[string]string {
	if len(all) == 0 {
		return nil
	}
	fit := make(map[string]string, min(len(all), maxAuditChanges))
	for i, name := range slices.Sorted(maps.Keys(all)) {
		if i == maxAuditChanges {
			fit["…"] = fmt.Sprintf("%d more are left out", len(all)-maxAuditChanges)
			break
		}
		fit[words.Clip(strings.ToValidUTF8(name, "�"), maxAuditName)] = words.Clip(strings.ToValidUTF8(all[name], "�"),
			maxAuditName)
	}
	return fit
}

// sealed returns the record with its hash, as it is to be stored.
func (r AuditRecord) sealed() AuditRecord {
	r.Hash = ""
	line := znode.Encode(r)
	r.Hash = auditHash(line)
	r.line = znode.Encode(r)
	return r
}

// Line returns the record as it is stored: one line of JSON, without the end of
// the line. It may have members that this program does not know, and its hash
// covers them: what ships records has to ship lines.
func (r AuditRecord) Line() []byte {
	if r.line == nil {
		return znode.Encode(r)
	}
	return bytes.Clone(r.line)
}

// auditHead is how a record begins: the hash is of the line with an empty hash.
var auditHead = regexp.MustCompile(`^\{"seq":[0-9]+,"at":"[^"\\]*","prev":"[0-9a-f]*","hash":"([0-9a-f]*)",`)

func auditHash(line []byte) string {
	sum := sha256.Sum256(line)
	return hex.EncodeToString(sum[:])
}

// ErrAuditAltered is returned for a record whose hash is not that of its text.
var ErrAuditAltered = errors.New("its hash is not that of its text")

// ParseAuditRecord reads a line, see AuditRecord.Line. It returns an error for one that is no record, and
// ErrAuditAltered for one that was altered. Whether it continues another record is for the caller to see, by
// Seq and Prev.
func ParseAuditRecord(line []byte) (AuditRecord, error) {
	r, err := readAuditRecord(line)
	if err != nil {
		return r, err
	}
	at := auditHead.FindSubmatchIndex(line)
	bare := slices.Concat(line[:at[2]], line[at[3]:])
	if auditHash(bare) != r.Hash {
		return r, ErrAuditAltered
	}
	return r, nil
}

// readAuditRecord is ParseAuditRecord for those who do not care whether it was
// altered.
func readAuditRecord(line []byte) (r AuditRecord, err error) {
	if !auditHead.Match(line) {
		return r, errors.New("it is no record of the audit trail")
	}
	if err := json.Unmarshal(line, &r); err != nil {
		return AuditRecord{}, fmt.Errorf("it is no record of the audit trail: %w", err)
	}
	r.line = bytes.Clone(line)
	return r, nil
}
