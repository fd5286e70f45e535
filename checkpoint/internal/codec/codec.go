// SPDX-License-Identifier: Apache-2.0

// Package codec is how what a checkpoint has is written as bytes in [checkpoint.Format], wherever a store keeps them.
// It knows neither keys nor checksums nor places.
//
// Numbers are uvarints, texts their length as a uvarint and their bytes. What is decoded does not refer to the bytes
// that it came from. Each value has one form: bytes that are decoded without an error are those that encoding gives.
package codec

import (
	"encoding/binary"
	"errors"
	"fmt"

	"github.com/kube-eventbridge/kube-eventbridge/checkpoint"
)

// errRest says that bytes are missing, or left.
var errRest = errors.New("cut short")

// UnknownFormat is a format that this version does not know.
type UnknownFormat byte

// Error implements error.
func (f UnknownFormat) Error() string { return fmt.Sprintf("format %d", byte(f)) }

// Decoder reads what the functions of this package, and those of encoding/binary for uvarints, appended. What follows
// bad input is zero.
type Decoder struct {
	rest []byte
	bad  bool
}

// NewDecoder returns one that reads b.
func NewDecoder(b []byte) *Decoder { return &Decoder{rest: b} }

// Uvarint reads a number.
func (d *Decoder) Uvarint() uint64 {
	n, size := binary.Uvarint(d.rest)
	if size <= 0 || size > 1 && d.rest[size-1] == 0 { // the last digit is not zero
		d.bad, d.rest = true, nil
		return 0
	}
	d.rest = d.rest[size:]
	return n
}

// Bytes reads n bytes, which are those that the decoder was made of. It returns nil if there are less.
func (d *Decoder) Bytes(n uint64) []byte {
	if n > uint64(len(d.rest)) {
		d.bad, d.rest = true, nil
		return nil
	}
	b := d.rest[:n:n]
	d.rest = d.rest[n:]
	return b
}

// byte reads one.
func (d *Decoder) byte() byte {
	if b := d.Bytes(1); b != nil {
		return b[0]
	}
	return 0
}

// refuse makes what was read bad if it is another form of what there is one form of.
func (d *Decoder) refuse(other bool) { d.bad = d.bad || other }

// Text reads a text.
func (d *Decoder) Text() string { return string(d.Bytes(d.Uvarint())) }

// Rest returns what is not read yet, of the bytes that the decoder was made of.
func (d *Decoder) Rest() []byte { return d.rest }

// Bad reports whether something that was read was not there.
func (d *Decoder) Bad() bool { return d.bad }

// Done returns an error if what was read was not there, or if there is more.
func (d *Decoder) Done() error {
	if d.Bad() || len(d.rest) != 0 {
		return errRest
	}
	return nil
}

// AppendText appends a text, or bytes as one.
func AppendText[T string | []byte](b []byte, s T) []byte {
	return append(binary.AppendUvarint(b, uint64(len(s))), s...)
}

// AppendIdentity appends cluster uid, cluster and pipeline.
func AppendIdentity(b []byte, id checkpoint.Identity) []byte {
	return AppendText(AppendText(AppendText(b, id.ClusterUID), id.Cluster), id.Pipeline)
}

// Identity reads what AppendIdentity appended.
func (d *Decoder) Identity() checkpoint.Identity {
	return checkpoint.Identity{ClusterUID: d.Text(), Cluster: d.Text(), Pipeline: d.Text()}
}
