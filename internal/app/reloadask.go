// SPDX-License-Identifier: Apache-2.0

package app

import (
	"context"
	"net/http"

	"k8s.io/client-go/rest"

	"github.com/kube-eventbridge/kube-eventbridge/internal/config"
	"github.com/kube-eventbridge/kube-eventbridge/internal/preflight"
	"github.com/kube-eventbridge/kube-eventbridge/internal/wiring"
	"github.com/kube-eventbridge/kube-eventbridge/source/catalog"
)

// unreadable returns what the API server shows to be wrong with a configuration, as far as it answers in time, without
// places. The streams, which may have to ask it too, are not held up. The error is that of ctx, or of what reaches the
// API server.
func (p *process) unreadable(ctx context.Context, cfg *config.Config) (wrong config.Problems, err error) {
	asking, cancel := context.WithTimeout(ctx, wiring.AskFor)
	defer cancel()
	d, err := catalog.NewDiscovery(until(asking, p.api))
	if err != nil {
		return nil, err
	}
	for i := range cfg.Pipelines {
		wrong = append(wrong, preflight.Misread(d, i, &cfg.Pipelines[i])...)
	}
	return wrong, ctx.Err()
}

// until returns what reaches the API server of api until ctx ends. It is for what takes no contexts.
func until(ctx context.Context, api *rest.Config) *rest.Config {
	api = rest.CopyConfig(api)
	api.Wrap(func(to http.RoundTripper) http.RoundTripper {
		return roundTrip(func(r *http.Request) (*http.Response, error) {
			// The answer is read after this has returned.
			one, cancel := context.WithCancelCause(r.Context())
			context.AfterFunc(ctx, func() { cancel(context.Cause(ctx)) })
			return to.RoundTrip(r.WithContext(one))
		})
	})
	return api
}

// roundTrip is a transport of one function.
type roundTrip func(*http.Request) (*http.Response, error)

// RoundTrip implements http.RoundTripper.
func (f roundTrip) RoundTrip(r *http.Request) (*http.Response, error) { return f(r) }
