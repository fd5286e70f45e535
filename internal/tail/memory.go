// SPDX-License-Identifier: Apache-2.0

package tail

import (
	"container/list"
)

// memory keeps the last event of each object, with what those before it told, the least recently seen ones dropped
// first, within a number of bytes. It is not safe for concurrent use.
type memory struct {
	max, size int
	order     *list.List
	byKey     map[string]*list.Element
}

func newMemory(maxBytes int) *memory {
	return &memory{max: maxBytes, order: list.New(), byKey: make(map[string]*list.Element)}
}

// keyOfObject is the object's name within the log; pipelines may publish different parts of an object.
func keyOfObject(e *Event) string {
	return e.Attr("pipeline") + "\x00" + e.source + "\x00" + e.object
}

func cost(e *Event) int {
	n := len(e.Message.Data) + 512
	for name, value := range e.attributes {
		n += len(name) + 2*len(value)
	}
	return n
}

// last returns the event that was put last of e's object, nil for none.
func (m *memory) last(e *Event) *Event {
	found, ok := m.byKey[keyOfObject(e)]
	if !ok {
		return nil
	}
	return found.Value.(*Event)
}

// remember puts e, with what is known of the whole object.
func (m *memory) remember(e *Event) { m.put(folded(e, m.last(e))) }

func (m *memory) put(e *Event) {
	key := keyOfObject(e)
	if old, ok := m.byKey[key]; ok {
		m.drop(old)
	}
	m.byKey[key] = m.order.PushFront(e)
	m.size += cost(e)
	for m.size > m.max {
		m.drop(m.order.Back())
	}
}

func (m *memory) drop(old *list.Element) {
	e := m.order.Remove(old).(*Event)
	delete(m.byKey, keyOfObject(e))
	m.size -= cost(e)
}

func (m *memory) clear() {
	*m = *newMemory(m.max)
}
