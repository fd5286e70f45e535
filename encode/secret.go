// SPDX-License-Identifier: Apache-2.0

package encode

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/go-json-experiment/json/jsontext"
)

// replaced is what stands for a text that was replaced, and mask is the base64 of it, so that typed clients still
// decode it.
const (
	replaced = "[redacted]"
	mask     = `"W3JlZGFjdGVkXQ=="`
)

// hasMask reports whether JSON may have the mask of a Secret's value, be there a hash in it or not.
func hasMask(b []byte) bool {
	return bytes.Contains(b, []byte(`"W3JlZGFjdGVk`)) || bytes.Contains(b, []byte(`"[redacted`))
}

var errTrailing = errors.New("something follows the object")

// valid reports whether b is one JSON value and no object in it repeats a name.
func valid(b []byte) bool { return jsontext.Value(b).IsValid() }

// redacted returns a Secret with what is known to be harmless: the names it knows, with the values of data, stringData
// and annotations masked, if there are any. Everything is decoded, and the first doubt is an error.
func (e *Encoder) redacted(body []byte, hash hasher) (data []byte, masked bool, err error) {
	r := redactor{
		dec: jsontext.NewDecoder(bytes.NewBuffer(body)), hash: hash,
		keepManaged: e.keepManaged, shown: e.cfg.SecretAnnotations,
	}
	metadataOnly := e.cfg.Payload == Metadata
	err = r.object(func(name string) error {
		switch name {
		case "apiVersion", "kind":
			return r.pass()
		case "metadata":
			return r.object(r.metadata)
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
	// keepManaged passes managedFields on, and shown are the annotations whose values pass.
	keepManaged bool
	shown       []string
	// masked says that a value was replaced.
	masked bool
}

// object copies an object. member is called behind each name, and passes the value on or skips it; then the name goes
// too.
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

func (r *redactor) metadata(name string) error {
	switch {
	case name == "managedFields" && !r.keepManaged:
		return r.dec.SkipValue()
	case name == "annotations" && r.dec.PeekKind() == '{':
		return r.object(r.annotation)
	case name == "annotations" && r.dec.PeekKind() != 'n':
		return r.dec.SkipValue()
	default:
		return r.pass()
	}
}

func (r *redactor) annotation(name string) error {
	switch {
	case copiesObject(name):
		return r.dec.SkipValue()
	case slices.Contains(r.shown, name):
		return r.pass()
	}
	v, err := r.dec.ReadValue()
	if err == nil {
		r.out, r.masked = r.hash.appendAnnotationMask(r.out, name, v), true
	}
	return err
}

// CheckSecretAnnotation returns an error if an annotation of this name is never sent, whatever
// [Config.SecretAnnotations] says.
func CheckSecretAnnotation(name string) error {
	if copiesObject(name) {
		return fmt.Errorf("%q holds a copy of the Secret and is never published; remove it", name)
	}
	return nil
}

// copiesObject is copiesObject for the member's name.
func (o *members) copiesObject() bool {
	v := o.b[o.name.from:o.name.to]
	may := bytes.Contains(v, []byte("applied")) || bytes.Contains(v, []byte("original")) || bytes.IndexByte(v, '\\') >= 0
	return may && copiesObject(o.text())
}

// copiesObject reports whether an annotation of this name holds its whole object as a tool applied it, be it
// compressed: kubectl's, kapp's, Rancher's, and those of operators that follow kubectl.
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
