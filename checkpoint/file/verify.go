// SPDX-License-Identifier: Apache-2.0

package file

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"hash/fnv"
	"io"
)

// The file format that bbolt calls version 2. Numbers are in the machine's own order.
const (
	headerSize  = 16 // page: id 8, flags 2, count 2, overflow 4
	elementSize = 16 // branch: pos 4, ksize 4, page 8; leaf: flags 4, pos 4, ksize 4, vsize 4
	bucketSize  = 16 // root page 8, sequence 8
	// Magic 4, version 4, page size 4, flags 4, root 8, sequence 8, freelist 8, high 8, txid 8, checksum 8.
	metaSize  = 64
	metaMagic = 0xED0CDAED

	branchPage   = 0x01
	leafPage     = 0x02
	freelistPage = 0x10
	leafBucket   = 0x01

	noPage   = ^uint64(0)
	maxDepth = 32
)

var native = binary.NativeEndian

// pages checks that the pages of a file are what bbolt wrote: a tree in which every element is in its place, and every
// page is used once or free once. Bbolt believes what it reads: a flipped bit can make it panic, in a goroutine of its
// own even, run in circles, lose rows without a word, or overwrite what it should keep. The contents of rows have
// checksums of their own.
type pages struct {
	file  io.ReaderAt
	size  int
	high  uint64
	used  []bool
	level [maxDepth][]byte
}

// verify reads all of the file.
func verify(file io.ReaderAt, pageSize int, fileSize int64) error {
	root, freelist, high, err := currentMeta(file, pageSize)
	if err != nil {
		return err
	}
	if high < 2 || high > uint64(fileSize)/uint64(pageSize) {
		return fmt.Errorf("%d bytes are too short for %d pages", fileSize, high)
	}
	p := &pages{file: file, size: pageSize, high: high, used: make([]bool, high)}
	p.used[0], p.used[1] = true, true
	if err := p.tree(root, 0, nil, nil); err != nil {
		return err
	}
	if freelist == noPage {
		return nil
	}
	if err := p.freelist(freelist); err != nil {
		return err
	}
	for id, used := range p.used {
		if !used {
			return fmt.Errorf("page %d is lost", id)
		}
	}
	return nil
}

// currentMeta returns what the last complete transaction wrote.
func currentMeta(file io.ReaderAt, pageSize int) (root, freelist, high uint64, err error) {
	best, found := uint64(0), false
	for i := range int64(2) {
		m := make([]byte, metaSize)
		if _, err := file.ReadAt(m, i*int64(pageSize)+headerSize); err != nil {
			continue
		}
		sum := fnv.New64a()
		_, _ = sum.Write(m[:metaSize-8])
		if native.Uint32(m) != metaMagic || native.Uint64(m[56:]) != sum.Sum64() {
			continue
		}
		if txid := native.Uint64(m[48:]); !found || txid > best {
			best, found = txid, true
			root, freelist, high = native.Uint64(m[16:]), native.Uint64(m[32:]), native.Uint64(m[40:])
		}
	}
	if !found {
		return 0, 0, 0, errors.New("neither meta page is valid")
	}
	return root, freelist, high, nil
}

// claim notes that a page is used, for the first time.
func (p *pages) claim(id uint64) error {
	if id >= p.high {
		return fmt.Errorf("page %d is beyond the end", id)
	}
	if p.used[id] {
		return fmt.Errorf("page %d is used twice", id)
	}
	p.used[id] = true
	return nil
}

// read claims a page with all that overflows from it. The result is valid until the next read at that depth.
func (p *pages) read(id uint64, depth int) ([]byte, error) {
	if depth >= maxDepth {
		return nil, errors.New("the tree is too deep")
	}
	if err := p.claim(id); err != nil {
		return nil, err
	}
	if p.level[depth] == nil {
		p.level[depth] = make([]byte, p.size)
	}
	b := p.level[depth]
	if _, err := p.file.ReadAt(b[:p.size], int64(id)*int64(p.size)); err != nil {
		return nil, fmt.Errorf("page %d: %w", id, err)
	}
	if got := native.Uint64(b); got != id {
		return nil, fmt.Errorf("page %d says that it is page %d", id, got)
	}
	overflow := uint64(native.Uint32(b[12:]))
	for i := range overflow {
		if err := p.claim(id + 1 + i); err != nil {
			return nil, err
		}
	}
	size := int(overflow+1) * p.size
	if size <= p.size {
		return b[:size], nil
	}
	if size > len(b) {
		b = make([]byte, size)
		p.level[depth] = b
	}
	if _, err := p.file.ReadAt(b[:size], int64(id)*int64(p.size)); err != nil {
		return nil, fmt.Errorf("page %d: %w", id, err)
	}
	return b[:size], nil
}

// tree checks the page and all below it. Its keys are not before low and, unless that is nil, before end.
func (p *pages) tree(id uint64, depth int, low, end []byte) error {
	b, err := p.read(id, depth)
	if err != nil {
		return err
	}
	if err := p.elements(b, depth, low, end); err != nil {
		return fmt.Errorf("page %d: %w", id, err)
	}
	return nil
}

func (p *pages) elements(b []byte, depth int, low, end []byte) error {
	if len(b) < headerSize {
		return errors.New("too short")
	}
	flags, count := native.Uint16(b[8:]), int(native.Uint16(b[10:]))
	if flags != branchPage && flags != leafPage || flags == branchPage && count == 0 {
		return fmt.Errorf("no page of a tree has flags %#x and %d elements", flags, count)
	}
	next := headerSize + count*elementSize
	if next > len(b) {
		return fmt.Errorf("%d elements are too many", count)
	}
	before := low
	var child uint64
	for i := range count {
		e, err := elementAt(b, i, next, flags)
		if err != nil {
			return err
		}
		next = e.next
		if order := bytes.Compare(e.key, before); order < 0 || order == 0 && i > 0 ||
			end != nil && bytes.Compare(e.key, end) >= 0 {
			return fmt.Errorf("key %d is out of order", i)
		}
		if flags == branchPage {
			// A child is checked when its end is known: the key after it.
			if i > 0 {
				if err := p.tree(child, depth+1, before, e.key); err != nil {
					return err
				}
			}
			child = e.page
		} else if e.bucket {
			if err := p.bucket(e.value, depth+1); err != nil {
				return err
			}
		}
		before = e.key
	}
	if flags == branchPage {
		return p.tree(child, depth+1, before, end)
	}
	return nil
}

type element struct {
	key, value []byte
	page       uint64
	bucket     bool
	next       int
}

// elementAt returns element i of a page, whose data must begin at start: bbolt leaves no gaps.
func elementAt(b []byte, i, start int, flags uint16) (e element, err error) {
	at := headerSize + i*elementSize
	h := b[at : at+elementSize]
	var pos, ksize, vsize uint64
	if flags == branchPage {
		pos, ksize, e.page = uint64(native.Uint32(h)), uint64(native.Uint32(h[4:])), native.Uint64(h[8:])
	} else {
		kind := native.Uint32(h)
		pos, ksize, vsize = uint64(native.Uint32(h[4:])), uint64(native.Uint32(h[8:])), uint64(native.Uint32(h[12:]))
		e.bucket = kind == leafBucket
		if kind > leafBucket {
			return e, fmt.Errorf("element %d has flags %#x", i, kind)
		}
	}
	if uint64(at)+pos != uint64(start) || ksize == 0 || uint64(start)+ksize+vsize > uint64(len(b)) {
		return e, fmt.Errorf("element %d is not in its place", i)
	}
	e.key = b[start : start+int(ksize)]
	e.value = b[start+int(ksize) : start+int(ksize+vsize)]
	e.next = start + int(ksize+vsize)
	return e, nil
}

// bucket checks what is in a bucket: a tree of its own, or, if it is small, a page inside its value.
func (p *pages) bucket(value []byte, depth int) error {
	if len(value) < bucketSize {
		return errors.New("a bucket is too short")
	}
	if root := native.Uint64(value); root != 0 {
		return p.tree(root, depth, nil, nil)
	}
	if depth >= maxDepth {
		return errors.New("the tree is too deep")
	}
	return p.elements(value[bucketSize:], depth, nil, nil)
}

// freelist checks the list of pages that the next transactions may overwrite.
func (p *pages) freelist(id uint64) error {
	b, err := p.read(id, 0)
	if err != nil {
		return err
	}
	if flags := native.Uint16(b[8:]); flags != freelistPage {
		return fmt.Errorf("page %d: not a freelist", id)
	}
	count, ids := uint64(native.Uint16(b[10:])), b[headerSize:]
	if count == 0xFFFF {
		count, ids = native.Uint64(ids), ids[8:]
	}
	if count > uint64(len(ids))/8 {
		return fmt.Errorf("page %d: %d free pages are too many", id, count)
	}
	for i := range count {
		if err := p.claim(native.Uint64(ids[i*8:])); err != nil {
			return fmt.Errorf("freelist: %w", err)
		}
	}
	return nil
}
