// SPDX-License-Identifier: Apache-2.0

package redact

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/kube-eventbridge/kube-eventbridge/encode/jsonscan"
)

// replaced is what stands for a text that was replaced, and mask is the base64 of it, so that typed clients still
// decode it.
const (
	replaced = "[redacted]"
	mask     = `"W3JlZGFjdGVkXQ=="`
)

// HasMask reports whether JSON may have the mask of a Secret's value, be there a hash in it or not.
func HasMask(b []byte) bool {
	return bytes.Contains(b, []byte(`"W3JlZGFjdGVk`)) || bytes.Contains(b, []byte(`"[redacted`))
}

var errTrailing = errors.New("something follows the object")

// Valid reports whether b is one JSON value and no object in it repeats a name.
func Valid(b []byte) bool { return jsontext.Value(b).IsValid() }

// Secret says how Secrets are redacted.
type Secret struct {
	// Hashes is nil if masks have no hashes.
	Hashes *Hashes
	// KeepManaged keeps managedFields, and Shown are the annotations whose values are not replaced.
	KeepManaged bool
	Shown       []string
	// MetadataOnly leaves out all but the metadata.
	MetadataOnly bool
}

// Apply returns a Secret with what is known to be harmless: the names that Apply knows, with the values of data,
// stringData and annotations masked, if there are any. Everything is decoded, and the first doubt is an error.
func (s *Secret) Apply(body []byte, namespace, name string) (data []byte, masked bool, err error) {
	r := redactor{
		dec: jsontext.NewDecoder(bytes.NewBuffer(body)), hash: hasher{s.Hashes, namespace, name},
		keepManaged: s.KeepManaged, shown: s.Shown,
	}
	err = r.object(func(name string) error {
		switch name {
		case "apiVersion", "kind":
			return r.pass()
		case "metadata":
			return r.object(r.metadata)
		case "type", "immutable":
			if !s.MetadataOnly {
				return r.pass()
			}
		case "data", "stringData":
			if !s.MetadataOnly {
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
		return errors.Join(jsonscan.ErrNotObject, err)
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
		r.out = append(jsonscan.AppendQuoted(r.out, name), ':')
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

// CheckAnnotation returns an error if an annotation of this name is never sent, whatever [Secret.Shown] says.
func CheckAnnotation(name string) error {
	if copiesObject(name) {
		return fmt.Errorf("%q holds a copy of the Secret and is never published; remove it", name)
	}
	return nil
}

// CopiesObject reports whether the annotation holds its whole object as a tool applied it, be it compressed: kubectl's,
// kapp's, Rancher's, and those of operators that follow kubectl.
func CopiesObject(annotation *jsonscan.Object) bool {
	v := annotation.Quoted()
	may := bytes.Contains(v, []byte("applied")) || bytes.Contains(v, []byte("original")) || bytes.IndexByte(v, '\\') >= 0
	return may && copiesObject(annotation.Text())
}

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
