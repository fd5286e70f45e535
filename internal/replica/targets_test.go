// SPDX-License-Identifier: Apache-2.0

package replica

import (
	"errors"
	"fmt"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/kube-eventbridge/kube-eventbridge/internal/replica/clean"
	"github.com/kube-eventbridge/kube-eventbridge/source"
)

// An etcd that was restored with a version bump lists at a version that is far ahead, and has objects as they were.
func TestFeed_notices_a_list_whose_objects_went_back(t *testing.T) {
	for name, test := range map[string]struct {
		object, list string
		rewound      bool
	}{
		"as it was known":                       {"10", "12", false},
		"a list before the last known write":    {"8", "9", false},
		"a list behind it, with an older state": {"8", "1000000000", true},
	} {
		t.Run(name, func(t *testing.T) {
			g := newRig(t, nil)
			g.tell(is("a", at(1, 7)))
			g.has("a", at(1, 7))
			f := &feed{run: g.run, res: g.selection.All()[0], listed: func() {}}
			require.NoError(t, f.Note(t.Context(), source.Progress{Kind: source.Gap, Version: test.list}))
			f.Deliver(source.Change{
				Op: source.Added, Listed: true, Ident: source.Ident{Namespace: "shop", Name: "a", UID: uidOf("a")},
				Body: source.NewBody(fmt.Appendf(nil, `{"metadata":{"name":"a","namespace":"shop","uid":%q,"resourceVersion":%q,`+
					`"labels":{%q:"r"},"annotations":{%q:"east/core/configmaps/shop/a"}}}`, uidOf("a"), test.object, clean.Label,
					clean.Origin)),
			})
			err := f.Note(t.Context(), source.Progress{Kind: source.Listed, Version: test.list})
			var rewound *source.RewoundError
			assert.Equal(t, test.rewound, errors.As(err, &rewound), err)
		})
	}
}
