// SPDX-License-Identifier: Apache-2.0

package encode

import (
	"bytes"
	"errors"
	"io"
	"strings"

	"github.com/go-json-experiment/json/jsontext"
)

// mask is the base64 of "[redacted]", so that typed clients still decode it.
const mask = `"W3JlZGFjdGVkXQ=="`

// maskStart is what every mask of a Secret's value begins with behind its quote, be there a hash in it or not.
const maskStart = "W3JlZGFjdGVk"

var errTrailing = errors.New("something follows the object")

// valid reports whether b is one JSON value and no object in it repeats a name.
func valid(b []byte) bool { return jsontext.Value(b).IsValid() }

// redacted returns a Secret with what is known to be harmless: the names it knows, with the values of data and
// stringData masked, if there are any. Everything is decoded, and the first doubt is an error.
func redacted(body []byte, hash hasher, metadataOnly, keepManaged bool) (data []byte, masked bool, err error) {
	r := redactor{dec: jsontext.NewDecoder(bytes.NewBuffer(body)), hash: hash}
	err = r.object(func(name string) error {
		switch name {
		case "apiVersion", "kind":
			return r.pass()
		case "metadata":
			return r.object(func(name string) error { return r.metadata(name, keepManaged) })
		case "type", "immutable":
			if !metadataOnly {
				return r.pass()
			}
		case "data", "stringData":
			if !metadataOnly {
				return r.mask(name == "data")
			}
		}
		return r.dec.SkipValue()
	})
	if err != nil {
		return nil, false, err
	}
	if _, err := r.dec.ReadToken(); !errors.Is(err, io.EOF) {
		return nil, false, errTrailing
	}
	return r.out, r.masked, nil
}

// redactor copies from dec to out.
type redactor struct {
	dec  *jsontext.Decoder
	out  []byte
	hash hasher
	// masked says that a value was replaced.
	masked bool
}

// object copies an object. member is called behind each name, and passes the value on or skips it; then the name goes too.
func (r *redactor) object(member func(name string) error) error {
	if t, err := r.dec.ReadToken(); err != nil || t.Kind() != '{' {
		return errors.Join(errNotObject, err)
	}
	r.out = append(r.out, '{')
	for r.dec.PeekKind() == '"' {
		before := len(r.out)
		if r.out[before-1] != '{' {
			r.out = append(r.out, ',')
		}
		t, err := r.dec.ReadToken()
		if err != nil {
			return err
		}
		name := t.String()
		r.out = append(appendQuoted(r.out, name), ':')
		named := len(r.out)
		if err := member(name); err != nil {
			return err
		}
		if len(r.out) == named {
			r.out = r.out[:before]
		}
	}
	if _, err := r.dec.ReadToken(); err != nil {
		return err
	}
	r.out = append(r.out, '}')
	return nil
}

func (r *redactor) metadata(name string, keepManaged bool) error {
	switch {
	case name == "managedFields" && !keepManaged:
		return r.dec.SkipValue()
	case name == "annotations" && r.dec.PeekKind() == '{':
		return r.object(func(name string) error {
			if copiesObject(name) {
				return r.dec.SkipValue()
			}
			return r.pass()
		})
	default:
		return r.pass()
	}
}

// copiesObject is copiesObject for the member's name.
func (o *members) copiesObject() bool {
	v := o.b[o.name.from:o.name.to]
	may := bytes.Contains(v, []byte("applied")) || bytes.Contains(v, []byte("original")) || bytes.IndexByte(v, '\\') >= 0
	return may && copiesObject(o.text())
}

// copiesObject reports whether an annotation of this name holds its whole object as a tool applied it, be it compressed:
// kubectl's, kapp's, Rancher's, and those of operators that follow kubectl.
func copiesObject(name string) bool {
	return name == "kapp.k14s.io/original" || name == "objectset.rio.cattle.io/applied" ||
		strings.HasSuffix(name, "/last-applied-configuration") || strings.HasSuffix(name, "/last-applied")
}

// mask copies the names of an object, or null. Coded says that its values are base64.
func (r *redactor) mask(coded bool) error {
	if r.dec.PeekKind() == 'n' {
		return r.pass()
	}
	return r.object(func(name string) error {
		v, err := r.dec.ReadValue()
		if err == nil {
			r.out, r.masked = r.hash.appendMask(r.out, name, v, coded), true
		}
		return err
	})
}

func (r *redactor) pass() error {
	v, err := r.dec.ReadValue()
	if err != nil {
		return err
	}
	r.out = append(r.out, v...)
	return nil
}
