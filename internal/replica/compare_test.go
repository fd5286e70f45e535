// SPDX-License-Identifier: Apache-2.0

package replica

import (
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// A comparison is run from scripts: it must not wait for a broker that is away, or a target that cannot be read.
func TestCompare_fails_if_nothing_comes_for_long(t *testing.T) {
	for name, c := range map[string]struct {
		arrange func(g *rig)
		want    []string
	}{
		"of the log": {
			func(*rig) {},
			[]string{"the log of cluster east told nothing for 30s", "does the broker of from answer?"},
		},
		"of the target": {
			func(g *rig) {
				close(g.begun)
				g.health.Set("configmaps.v1/shop", errors.New("forbidden"))
			},
			[]string{"the target told nothing for 30s", "configmaps.v1/shop: forbidden"},
		},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				g, began := newRig(t, nil), time.Now()
				c.arrange(g)
				err := comparing{g.run}.stalls(t.Context())
				for _, want := range c.want {
					require.ErrorContains(t, err, want)
				}
				assert.Less(t, time.Since(began), time.Minute)
			})
		})
	}
}

func TestCompare_waits_while_something_comes(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g, ended := newRig(t, nil), make(chan error, 1)
		go func() { ended <- comparing{g.run}.stalls(t.Context()) }()
		for range 10 {
			time.Sleep(longestSilence / 2) //nolint:forbidigo // it is the time of a bubble
			g.messages.Add(1)
			select {
			case err := <-ended:
				t.Fatal("it ends: ", err)
			default:
			}
		}
		time.Sleep(2 * longestSilence) //nolint:forbidigo // it is the time of a bubble
		require.Error(t, <-ended)
	})
}
