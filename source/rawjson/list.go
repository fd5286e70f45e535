// SPDX-License-Identifier: Apache-2.0

package rawjson

import (
	"bufio"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"

	"github.com/go-json-experiment/json/jsontext"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// ListMeta is what a list says of itself.
type ListMeta struct {
	ResourceVersion string `json:"resourceVersion"`
	// Continue is the token of the next page; empty on the last one.
	Continue string `json:"continue"`
	// RemainingItemCount is how many items the following pages hold; nil where the API server does not say.
	RemainingItemCount *int64 `json:"remainingItemCount"`
}

// ReadList reads the answer to a list and hands over one item after the other; each is valid until item returns. It
// holds one item at a time, and returns the list's metadata, wherever it stands, when all are read.
//
// The error is an [apierrors.StatusError] where the answer is a Status instead of a list, what item returned, wrapped
// io.ErrUnexpectedEOF where the answer ends too early, or the reader's. Items handed over before it stay handed over.
func ReadList(r io.Reader, kind string, item func(raw []byte) error) (ListMeta, error) {
	// The decoder's own reads are small. It would also look for equal members and for invalid UTF-8 in every item: both
	// are the API server's business, as they are on a watch.
	d := listDecoder{json: jsontext.NewDecoder(bufio.NewReaderSize(r, bufferSize),
		jsontext.AllowDuplicateNames(true), jsontext.AllowInvalidUTF8(true))}
	if err := d.read(item); err != nil {
		var own itemError
		if errors.As(err, &own) {
			return ListMeta{}, own.error
		}
		return ListMeta{}, fmt.Errorf("decode %sList: %w", kind, truncated(err))
	}
	var head struct {
		Kind     string   `json:"kind"`
		Metadata ListMeta `json:"metadata"`
	}
	if err := json.Unmarshal(d.head, &head); err != nil {
		return ListMeta{}, fmt.Errorf("decode %sList: %w", kind, err)
	}
	if head.Kind == "Status" {
		return ListMeta{}, &apierrors.StatusError{ErrStatus: *ParseStatus(d.head)}
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
			return Unreadable("an item is no object but %.20q", raw)
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

// AppendHead appends what comes in place of the opening bracket of an item of a list: the kind and the apiVersion that
// it lacks. Neither names nor versions have anything to
// escape.
func AppendHead(b, raw []byte, kind, group, version string) []byte {
	hasKind, hasVersion, empty := false, false, true
	c := cursor{b: raw}
	for key, ok := c.enter(); ok; key, ok = c.next() {
		empty = false
		if string(key) == "metadata" {
			break
		}
		hasKind = hasKind || string(key) == "kind"
		hasVersion = hasVersion || string(key) == "apiVersion"
		if hasKind && hasVersion {
			break
		}
		c.skip()
	}
	b = append(b, '{')
	if !hasKind {
		b = append(append(append(b, `"kind":"`...), kind...), `",`...)
	}
	if !hasVersion {
		b = append(b, `"apiVersion":"`...)
		if group != "" {
			b = append(append(b, group...), '/')
		}
		b = append(append(b, version...), `",`...)
	}
	if empty {
		b = b[:len(b)-1]
	}
	return b
}

// ParseStatus decodes the object of an error frame. What is no Status becomes one that says so, with code 500.
func ParseStatus(raw []byte) *metav1.Status {
	status := &metav1.Status{}
	err := json.Unmarshal(raw, status)
	if err == nil && status.Kind != "Status" {
		err = fmt.Errorf("an object of kind %q", status.Kind)
	}
	if err == nil {
		return status
	}
	return &metav1.Status{
		Status:  metav1.StatusFailure,
		Reason:  metav1.StatusReasonInternalError,
		Code:    http.StatusInternalServerError,
		Message: fmt.Sprintf("the API server sent an error that is no Status: %v", err),
	}
}
