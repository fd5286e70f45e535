// SPDX-License-Identifier: Apache-2.0

package patch

import (
	"bytes"

	"github.com/kube-eventbridge/kube-eventbridge/encode/jsonscan"
)

// AppendMerge appends to dst the JSON merge patch (RFC 7386) that makes the object a the object b. It returns
// false, and dst, where there is none, as b has a new null, which a patch takes for a removal; where it is no shorter
// than b; and where names repeat.
func AppendMerge(dst, a, b []byte) (patch []byte, ok bool) {
	var room [96]field
	d := newDiffer(dst, a, b, room[:])
	x, y, ok := opening(a, b)
	if !ok || !d.mergeObjects(x, y) || !d.room() {
		return dst, false
	}
	return d.out, true
}

// mergeObjects writes the patch of the objects at a and b.
func (d *differ) mergeObjects(a, b jsonscan.Span) bool {
	frame, mid, ok := d.enter(a, b)
	defer d.leave(frame)
	d.out = append(d.out, '{')
	p := pairing{d: d, frame: frame, mid: mid, next: frame}
	for i := mid; ok && i < len(d.stack); i++ {
		f := d.stack[i]
		ok = d.mergeMember(p.of(&f), &f) && d.room()
	}
	for i := frame; ok && i < mid; i++ {
		if f := &d.stack[i]; !f.met {
			d.name(d.a, f)
			d.out = append(d.out, "null"...)
		}
	}
	d.out = append(d.out, '}')
	return ok
}

// name begins a member of the patch.
func (d *differ) name(text []byte, f *field) {
	if d.out[len(d.out)-1] != '{' {
		d.out = append(d.out, ',')
	}
	d.out = append(append(d.out, text[f.name.From:f.name.To]...), ':')
}

// mergeMember writes what becomes of a member of b, which is at a place of the stack in a, or -1.
func (d *differ) mergeMember(at int, f *field) bool {
	value := d.b[f.value.From:f.value.To]
	if at < 0 {
		return d.mergeNew(f, value)
	}
	before := d.stack[at].value
	switch {
	case d.same(before, f.value):
		return true
	case d.a[before.From] != '{' || value[0] != '{':
		return d.mergeNew(f, value)
	}
	outer := len(d.out)
	d.name(d.b, f)
	inner := len(d.out)
	if !d.mergeObjects(before, f.value) {
		return false
	}
	if len(d.out) == inner+len("{}") {
		d.out = d.out[:outer] // they differ in spelling alone
	}
	return true
}

func (d *differ) mergeNew(f *field, value []byte) bool {
	if nulls(value, jsonscan.MaxDepth) {
		return false
	}
	d.name(d.b, f)
	d.out = append(d.out, value...)
	return true
}

// nulls reports whether a value is null or an object that has one, however deep, but for those in lists: a merge patch
// leaves them as they are.
func nulls(value []byte, depth int) bool {
	switch {
	case value[0] == 'n' || depth == 0:
		return true
	case value[0] != '{' || !bytes.Contains(value, []byte("null")):
		return false
	}
	for _, v := range jsonscan.Members(value) {
		if nulls(v, depth-1) {
			return true
		}
	}
	return false
}
