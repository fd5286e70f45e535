// SPDX-License-Identifier: Apache-2.0

package patch

import (
	"bytes"
	"strconv"

	"github.com/kube-eventbridge/kube-eventbridge/encode/jsonscan"
)

// AppendJSON appends to dst the JSON patch (RFC 6902) that makes the object a the object b: operations add, remove
// and replace, in the order in which they have to be applied. A value is replaced as a whole where that is shorter than
// what changes in it, and where names repeat in it. Lists are compared by place, but for what both begin and end with.
// It returns false, and dst, where the patch is no shorter than b.
func AppendJSON(dst, a, b []byte) (patch []byte, ok bool) {
	var room [96]field
	d := newDiffer(dst, a, b, room[:])
	d.out = append(d.out, '[')
	x, y, ok := opening(a, b)
	if !ok || !d.objects(x, y, d.start+d.most) || !d.room() {
		return dst, false
	}
	return append(d.out, ']'), true
}

// operation writes one operation on the path; value is nil for a removal.
func (d *differ) operation(op string, value []byte) {
	if d.out[len(d.out)-1] != '[' {
		d.out = append(d.out, ',')
	}
	d.out = append(append(append(d.out, `{"op":"`...), op...), `","path":"`...)
	d.out = append(append(d.out, d.path...), '"')
	if value != nil {
		d.out = append(append(d.out, `,"value":`...), value...)
	}
	d.out = append(d.out, '}')
}

// objects writes what makes the object at a the one at b. It returns false where they cannot be compared, or out
// becomes longer than limit.
func (d *differ) objects(a, b jsonscan.Span, limit int) bool {
	frame, mid, ok := d.enter(a, b)
	defer d.leave(frame)
	path := len(d.path)
	p := pairing{d: d, frame: frame, mid: mid, next: frame}
	for i := mid; ok && i < len(d.stack); i++ {
		f := d.stack[i]
		at := p.of(&f)
		if at >= 0 && d.same(d.stack[at].value, f.value) {
			continue
		}
		d.member(d.b, &f)
		if at < 0 {
			d.operation("add", d.b[f.value.From:f.value.To])
		} else {
			d.values(d.stack[at].value, f.value)
		}
		d.path, ok = d.path[:path], len(d.out) <= limit
	}
	for i := frame; ok && i < mid; i++ {
		if f := d.stack[i]; !f.met {
			d.member(d.a, &f)
			d.operation("remove", nil)
			d.path, ok = d.path[:path], len(d.out) <= limit
		}
	}
	return ok
}

// values writes what makes the value at a the one at b, which is spelt differently.
func (d *differ) values(a, b jsonscan.Span) {
	value, out, ok := d.b[b.From:b.To], len(d.out), false
	limit := out + len(`,{"op":"replace","path":"","value":}`) + len(d.path) + len(value)
	path := len(d.path)
	switch opens := value[0]; {
	case opens != d.a[a.From]:
	case opens == '{':
		ok = d.objects(a, b, limit)
	case opens == '[':
		ok = d.lists(a, b, limit)
	}
	if !ok {
		d.out, d.path = d.out[:out], d.path[:path]
		d.operation("replace", value)
	}
}

// lists is objects for the lists at a and b.
func (d *differ) lists(a, b jsonscan.Span, limit int) bool {
	frame, mid, ok := d.enter(a, b)
	defer d.leave(frame)
	if !ok {
		return false
	}
	path := len(d.path)
	before, after := mid-frame, len(d.stack)-mid
	first, last := d.alike(frame, mid)
	both := min(before, after) - last
	for i := first; i < both && len(d.out) <= limit; i++ {
		if x, y := d.stack[frame+i].value, d.stack[mid+i].value; !d.same(x, y) {
			d.element(i)
			d.values(x, y)
			d.path = d.path[:path]
		}
	}
	for i := before - last - 1; i >= both && len(d.out) <= limit; i-- {
		d.element(i)
		d.operation("remove", nil)
		d.path = d.path[:path]
	}
	for i := both; i < after-last && len(d.out) <= limit; i++ {
		v := d.stack[mid+i].value
		d.element(i)
		d.operation("add", d.b[v.From:v.To])
		d.path = d.path[:path]
	}
	return len(d.out) <= limit
}

// alike returns how many elements both lists begin with, and how many of the rest they end with.
func (d *differ) alike(frame, mid int) (first, last int) {
	before, after := d.stack[frame:mid], d.stack[mid:]
	n := min(len(before), len(after))
	for first < n && d.same(before[first].value, after[first].value) {
		first++
	}
	if len(before) == len(after) {
		return first, 0 // nothing has moved
	}
	for last < n-first && d.same(before[len(before)-1-last].value, after[len(after)-1-last].value) {
		last++
	}
	return first, last
}

// element appends a place in a list to the path.
func (d *differ) element(i int) { d.path = strconv.AppendInt(append(d.path, '/'), int64(i), 10) }

// member appends a member's name to the path, escaped as a JSON pointer wants it.
func (d *differ) member(text []byte, f *field) {
	name, _ := nameOf(text, f)
	d.path = append(d.path, '/')
	if !f.escaped && bytes.IndexByte(name, '~') < 0 && bytes.IndexByte(name, '/') < 0 {
		d.path = append(d.path, name...)
		return
	}
	name = bytes.ReplaceAll(name, []byte("~"), []byte("~0"))
	name = bytes.ReplaceAll(name, []byte("/"), []byte("~1"))
	quoted := jsonscan.AppendQuoted(nil, string(name))
	d.path = append(d.path, quoted[1:len(quoted)-1]...)
}
