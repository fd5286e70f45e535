// SPDX-License-Identifier: Apache-2.0

package kube

import (
	"context"
	"fmt"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/fields"

	"github.com/kube-eventbridge/kube-eventbridge/source"
	"github.com/kube-eventbridge/kube-eventbridge/source/rawjson"
)

// readTimeout is how long reading one object may take: an API server that is not at the version yet waits for it for 3
// s.
const readTimeout = 30 * time.Second

// ReadExact reads one object as the stream had it at q.Exact, and hands over its JSON, valid until item returns. Found
// is false where the stream did not have it then: it did not exist, or the selectors did not match. It takes a place
// unless q has one. The error says why the API server does not tell, see [Audit]; nothing is repeated.
func (c *Client) ReadExact(
	ctx context.Context, s source.Stream, key source.Ident, q PageQuery, item func(source.Ident, []byte),
) (found bool, err error) {
	if !q.Placed {
		p, err := c.places.take(ctx, s.GroupResource())
		if err != nil {
			return false, fmt.Errorf("read %s: %w", s.Name(), err)
		}
		defer p.Leave()
	}
	ctx, cancel := context.WithTimeout(ctx, readTimeout)
	defer cancel()
	q.Limit, q.Placed = 1, true
	meta, err := c.ReadPage(ctx, only(s, key.Namespace, key.Name), q, func(raw []byte) error {
		id, err := source.ParseIdent(raw, s.Namespaced)
		if err != nil {
			return err
		}
		if id.Name != key.Name || id.Namespace != key.Namespace || found {
			return rawjson.Unreadable("asked for %q only, the API server sent %q", key.Name, id.Name)
		}
		if source.Later(q.Exact, id.ResourceVersion) != q.Exact {
			return rawjson.Unreadable("asked for %q at %s, the API server sent it at %s", key.Name, q.Exact, id.ResourceVersion)
		}
		found = true
		item(id, raw)
		return nil
	})
	if err == nil && !found && meta.Continue != "" {
		err = rawjson.Unreadable("asked for %q only, the API server has more", key.Name)
	}
	return found && err == nil, err
}

// only narrows a stream to one object, in the object's own namespace: there the API server reads it without a list.
func only(s source.Stream, namespace, name string) source.Stream {
	field := "metadata.name=" + fields.EscapeValue(name)
	s.Namespace, s.FieldSelector = namespace, strings.TrimSuffix(field+","+s.FieldSelector, ",")
	return s
}
