// SPDX-License-Identifier: Apache-2.0

package bridge

import (
	"testing"
	"time"

	"github.com/kube-eventbridge/kube-eventbridge/internal/must"
	"github.com/kube-eventbridge/kube-eventbridge/source"
	"github.com/stretchr/testify/assert"
)

// What is missing for long is looked for ever more seldom, and at once when it was there meanwhile.
func TestStatus_looks_more_and_more_seldom_for_what_is_missing(t *testing.T) {
	_, at := offersOf(t)
	client := must.Get(source.NewClient(at))(t)
	catalog := must.Get(source.NewCatalog(at, client, source.CatalogConfig{}))(t)
	st := &status{stream: &stream{session: &session{cfg: &Config{Catalog: catalog}}}}
	now, looks := time.Now(), 0
	for range 3600 {
		before := st.asked
		st.missed(now)
		if st.asked != before {
			looks++
		}
		now = now.Add(time.Second)
	}
	assert.GreaterOrEqual(t, looks, 30, "looks in an hour")
	assert.LessOrEqual(t, looks, 45, "looks in an hour")
	st.doubt = 0 // as when it watches
	if st.missed(now); st.asked != now {
		t.Error("it does not look at once when something new is missing")
	}
}
