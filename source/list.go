// SPDX-License-Identifier: Apache-2.0

package source

import (
	"bufio"
	"encoding/json"
	"errors"
	"fmt"
	"io"

	"github.com/go-json-experiment/json/jsontext"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
)

// listMeta is what a list says of itself.
type listMeta struct {
	ResourceVersion string `json:"resourceVersion"`
	// Continue is the token of the next page; empty on the last one.
	Continue string `json:"continue"`
	// RemainingItemCount is how many items the following pages hold; nil where the API server does not say.
	RemainingItemCount *int64 `json:"remainingItemCount"`
}

// readList reads the answer to a list and hands over one item after the other; each is valid until item returns. It
// holds one item at a time, and returns the list's metadata, wherever it stands, when all are read.
//
// The error is an [apierrors.StatusError] where the answer is a Status instead of a list, what item returned, wrapped
// io.ErrUnexpectedEOF where the answer ends too early, or the reader's. Items handed over before it stay handed over.
func readList(r io.Reader, res Resource, item func(raw []byte) error) (listMeta, error) {
	// The decoder's own reads are small. It would also look for equal members and for invalid UTF-8 in every item: both
	// are the API server's business, as they are on a watch.
	d := listDecoder{json: jsontext.NewDecoder(bufio.NewReaderSize(r, frameBuffer),
		jsontext.AllowDuplicateNames(true), jsontext.AllowInvalidUTF8(true))}
	if err := d.read(item); err != nil {
		var own itemError
		if errors.As(err, &own) {
			return listMeta{}, own.error
		}
		return listMeta{}, fmt.Errorf("decode %sList: %w", res.Kind, truncated(err))
	}
	var head struct {
		Kind     string   `json:"kind"`
		Metadata listMeta `json:"metadata"`
	}
	if err := json.Unmarshal(d.head, &head); err != nil {
		return listMeta{}, fmt.Errorf("decode %sList: %w", res.Kind, err)
	}
	if head.Kind == "Status" {
		return listMeta{}, &apierrors.StatusError{ErrStatus: *parseStatus(d.head)}
	}
	return head.Metadata, nil
}

// itemError is what the caller's function returned.
type itemError struct{ error }

// truncated calls the end of an unfinished answer by its name.
func truncated(err error) error {
	if errors.Is(err, io.EOF) {
		return io.ErrUnexpectedEOF
	}
	return err
}

type listDecoder struct {
	json *jsontext.Decoder
	// head is the answer without its items: the head of a list, or the whole of a Status.
	head []byte
}

func (d *listDecoder) read(item func(raw []byte) error) error {
	if err := d.open('{'); err != nil {
		return err
	}
	d.head = append(d.head, '{')
	for d.json.PeekKind() != '}' {
		if err := d.member(item); err != nil {
			return err
		}
	}
	if _, err := d.json.ReadToken(); err != nil {
		return err
	}
	d.head = append(d.head, '}')
	if _, err := d.json.ReadToken(); err == nil {
		return errors.New("more than one JSON value")
	} else if !errors.Is(err, io.EOF) {
		return err
	}
	return nil
}

func (d *listDecoder) member(item func(raw []byte) error) error {
	token, err := d.json.ReadToken()
	if err != nil {
		return err
	}
	switch name := token.String(); name {
	case "items":
		return d.items(item)
	case "kind", "apiVersion", "metadata", "status", "message", "reason", "details", "code":
		return d.keep(name)
	default:
		return d.json.SkipValue()
	}
}

// keep adds a member to the head.
func (d *listDecoder) keep(name string) error {
	value, err := d.json.ReadValue()
	if err != nil {
		return err
	}
	if len(d.head) > 1 {
		d.head = append(d.head, ',')
	}
	d.head = append(append(append(d.head, '"'), name...), '"', ':')
	d.head = append(d.head, value...)
	return nil
}

func (d *listDecoder) items(item func(raw []byte) error) error {
	if d.json.PeekKind() == 'n' {
		return d.json.SkipValue()
	}
	if err := d.open('['); err != nil {
		return err
	}
	for d.json.PeekKind() != ']' {
		raw, err := d.json.ReadValue()
		if err != nil {
			return err
		}
		if raw.Kind() != '{' {
			return unreadable("an item is no object but %.20q", raw)
		}
		if err := item(raw); err != nil {
			return itemError{err}
		}
	}
	_, err := d.json.ReadToken()
	return err
}

func (d *listDecoder) open(kind jsontext.Kind) error {
	token, err := d.json.ReadToken()
	if err == nil && token.Kind() != kind {
		err = fmt.Errorf("%s instead of %s", token.Kind(), kind)
	}
	return err
}

// newListBody copies an item of a list, as readList gives it, into a body with one reference. Items of the API
// server's own types lack kind and apiVersion, which are put in front; one that the item has is left as it is.
//
// They are looked for among the members before metadata: API servers write kind, apiVersion and metadata first, or sort
// an object's members.
func newListBody(raw []byte, res Resource) *Body {
	var space [256]byte
	return NewBody(appendHead(space[:0], raw, res), raw[1:])
}

// bodySize returns how many bytes newListBody's body holds.
func bodySize(raw []byte, res Resource) int {
	var space [256]byte
	return len(appendHead(space[:0], raw, res)) + len(raw[1:])
}

// appendHead appends what comes in place of an item's opening bracket. Neither names nor versions have anything to
// escape.
func appendHead(b, raw []byte, res Resource) []byte {
	kind, apiVersion, empty := false, false, true
	c := cursor{b: raw}
	for key, ok := c.enter(); ok; key, ok = c.next() {
		empty = false
		if string(key) == "metadata" {
			break
		}
		kind = kind || string(key) == "kind"
		apiVersion = apiVersion || string(key) == "apiVersion"
		if kind && apiVersion {
			break
		}
		c.skip()
	}
	b = append(b, '{')
	if !kind {
		b = append(append(append(b, `"kind":"`...), res.Kind...), `",`...)
	}
	if !apiVersion {
		b = append(b, `"apiVersion":"`...)
		if res.Group != "" {
			b = append(append(b, res.Group...), '/')
		}
		b = append(append(b, res.Version...), `",`...)
	}
	if empty {
		b = b[:len(b)-1]
	}
	return b
}
