// SPDX-License-Identifier: Apache-2.0

package source

import (
	"context"
	"fmt"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/fields"

	"github.com/kube-eventbridge/kube-eventbridge/source/rawjson"
)

// readTimeout is how long reading one object may take: an API server that is not at the version yet waits for it for 3
// s.
const readTimeout = 30 * time.Second

// readExact reads one object as the stream had it at q.exact, and hands over its JSON, valid until item returns. Found
// is false where the stream did not have it then: it did not exist, or the selectors did not match.
func (c *Client) readExact(
	ctx context.Context, s Stream, key Ident, q pageQuery, item func(Ident, []byte),
) (found bool, err error) {
	if !q.placed {
		p, err := c.places.take(ctx, s.GroupResource(), true)
		if err != nil {
			return false, fmt.Errorf("read %s: %w", s.Name(), err)
		}
		defer p.leave()
	}
	ctx, cancel := context.WithTimeout(ctx, readTimeout)
	defer cancel()
	q.limit, q.placed = 1, true
	meta, err := c.readPage(ctx, only(s, key.Namespace, key.Name), q, func(raw []byte) error {
		id, err := parseObject(raw, s.Namespaced)
		if err != nil {
			return err
		}
		if id.Name != key.Name || id.Namespace != key.Namespace || found {
			return rawjson.Unreadable("asked for %q only, the API server sent %q", key.Name, id.Name)
		}
		if later(q.exact, id.ResourceVersion) != q.exact {
			return rawjson.Unreadable("asked for %q at %s, the API server sent it at %s", key.Name, q.exact, id.ResourceVersion)
		}
		found = true
		item(id.Ident, raw)
		return nil
	})
	if err == nil && !found && meta.Continue != "" {
		err = rawjson.Unreadable("asked for %q only, the API server has more", key.Name)
	}
	return found && err == nil, err
}

// only narrows a stream to one object, in the object's own namespace: there the API server reads it without a list.
func only(s Stream, namespace, name string) Stream {
	field := "metadata.name=" + fields.EscapeValue(name)
	s.Namespace, s.FieldSelector = namespace, strings.TrimSuffix(field+","+s.FieldSelector, ",")
	return s
}
