// SPDX-License-Identifier: Apache-2.0

package encode

import (
	"crypto/sha256"
	"encoding/binary"
	"fmt"
	"hash/crc32"
	"slices"

	"github.com/kube-eventbridge/kube-eventbridge/encode/jsonscan"
	"github.com/kube-eventbridge/kube-eventbridge/encode/patch"
	"github.com/kube-eventbridge/kube-eventbridge/encode/redact"
	"github.com/kube-eventbridge/kube-eventbridge/sink"
	"github.com/kube-eventbridge/kube-eventbridge/source"
)

// Old is what the log has of an object: the data that [Encoder.ChangeFrom] returned, and the version that they are of.
// The zero Old says that the log has nothing, or that it is not known what.
type Old struct {
	Data            []byte
	ResourceVersion string
}

// ChangeFrom is Change for a payload that is made from what the log had before. It returns the data that the event of c
// has with the payload Object: what the Old of the next event has to have. They have nothing that such an event would
// not show, and are written into room, whose memory is used again, old's not being a part of it.
func (e *Encoder) ChangeFrom(m *sink.Message, c *source.Change, old Old, room []byte) (data []byte, err error) {
	var v view
	if err := e.look(&v, c); err != nil {
		return room, err
	}
	data = e.appendView(slices.Grow(room[:0], len(v.body)+len(e.identity)+2), c, &v)
	k := kind{typ: e.typeOf(c.Op), redacted: v.redacted}
	if e.cfg.Payload == Change {
		e.both(m, c, &v, k, old, data)
		return data, nil
	}
	if old.Data != nil && c.Op == source.Updated {
		// Behind the data there is room for the patch.
		if patched, ok := e.appendPatch(data, old.Data, data); ok {
			patch := patched[len(data):]
			k.base = old.ResourceVersion
			k.redacted = v.redacted && e.masksPatch(&v, patch)
			e.begin(m, c, &v.walk, k)
			m.Data = append(m.Data, patch...)
			e.end(m)
			return patched[:len(data)], nil
		}
	}
	e.object.begin(m, c, &v.walk, k)
	m.Data = append(m.Data, data...)
	e.end(m)
	return data, nil
}

// both fills m with the event that has the object and what it was.
func (e *Encoder) both(m *sink.Message, c *source.Change, v *view, k kind, old Old, data []byte) {
	known := old.Data != nil && c.Op != source.Added
	if known {
		k.base = old.ResourceVersion
		k.redacted = v.redacted || e.masksOld(old.Data)
	}
	e.begin(m, c, &v.walk, k)
	m.Data = append(append(m.Data, `{"object":`...), data...)
	if known {
		m.Data = append(append(m.Data, `,"oldObject":`...), old.Data...)
	}
	m.Data = append(m.Data, '}')
	e.end(m)
}

// masksPatch reports whether a patch may have a value that was replaced, where the object has one. The mask of a
// Secret's value can be found in it, and that of another value cannot.
func (o *content) masksPatch(v *view, patch []byte) bool {
	return v.read == nil || o.redaction != nil || redact.HasMask(patch)
}

// mark finds what is replaced in b.
func (o *content) mark(b []byte, w *walk) (err error) {
	w.edits.Masked, err = o.redaction.Find(b, [2]jsonscan.Span{w.metadata, w.managedFields})
	return err
}

// masksOld reports whether data that e has made before may have a value that was replaced.
func (o *content) masksOld(data []byte) bool {
	if o.secret != nil && redact.HasMask(data) {
		return true
	}
	if o.redaction == nil {
		return false
	}
	var w walk
	return o.mark(data, &w) != nil || w.edits.Replaces(data, jsonscan.Span{To: len(data)})
}

func (o *content) appendPatch(dst, from, to []byte) ([]byte, bool) {
	if o.payload == MergePatch {
		return patch.AppendMerge(dst, from, to)
	}
	return patch.AppendJSON(dst, from, to)
}

// formVersion is increased when the same configuration gives other data than before.
const formVersion = 2

// Form stands for data, and for all that they depend on besides the object: what has the form of data that were
// published is, but for one case in 2³², what was published. It is the same in every process, never 0, and says nothing
// of what data do not show, nor of a key.
func (e *Encoder) Form(data []byte) uint32 {
	return max(crc32.Update(e.form, crc32.MakeTable(crc32.Castagnoli), data), 1)
}

// formOf stands for all that the data of an object depend on besides the object.
func formOf(e *Encoder) uint32 {
	h := sha256.New()
	_, _ = fmt.Fprintf(h, "%d %t %t %t\n", formVersion, e.keepManaged, e.keepApplied, e.secret != nil)
	paths := make([]string, 0, len(e.cfg.Redact))
	for _, p := range e.cfg.Redact {
		paths = append(paths, p.String())
	}
	slices.Sort(paths)
	_, _ = fmt.Fprintf(h, "%q\n", paths)
	if e.secret != nil {
		_, _ = fmt.Fprintf(h, "%q\n", slices.Sorted(slices.Values(e.cfg.SecretAnnotations)))
	}
	if hashes := e.cfg.SecretHashes; hashes != nil && e.secret != nil {
		_, _ = h.Write(hashes.Derive("form"))
	}
	return binary.LittleEndian.Uint32(h.Sum(nil))
}
