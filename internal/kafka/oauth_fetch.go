// SPDX-License-Identifier: Apache-2.0

package kafka

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"time"

	"golang.org/x/oauth2"
	"golang.org/x/oauth2/clientcredentials"
)

const (
	// fetchTimeout is how long a token may take, where the caller gives more.
	fetchTimeout = 10 * time.Second
	// tokenMargin is how long before its end a token is not used any more, or a quarter of its life if that is less.
	tokenMargin = 30 * time.Second
)

// tokenFetcher fetches tokens by a client's id and secret, one at a time, and keeps the last one.
type tokenFetcher struct {
	config clientcredentials.Config
	client *http.Client
	// issuer is the URL without what may be a secret.
	issuer string

	// turn is held by sending. It guards what follows.
	turn  chan struct{}
	last  string
	until time.Time
}

func newTokenFetcher(a Auth) *tokenFetcher {
	return &tokenFetcher{
		config: clientcredentials.Config{
			ClientID: a.ClientID, ClientSecret: a.ClientSecret, TokenURL: a.TokenURL,
			Scopes: a.Scopes,
		},
		client: &http.Client{
			Timeout: fetchTimeout,
			Transport: &http.Transport{
				Proxy: http.ProxyFromEnvironment, DisableKeepAlives: true,
				TLSHandshakeTimeout: fetchTimeout,
			},
			// The secret is for who was named, not for whom he names.
			CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
		},
		issuer: issuerOf(a.TokenURL),
		turn:   make(chan struct{}, 1),
	}
}

// issuerOf returns a URL without its query and its user.
func issuerOf(tokenURL string) string {
	u, err := url.Parse(tokenURL)
	if err != nil {
		return "the server of tokens"
	}
	u.RawQuery, u.User = "", nil
	return u.String()
}

func (f *tokenFetcher) token(ctx context.Context) (string, error) {
	select {
	case f.turn <- struct{}{}:
		defer func() { <-f.turn }()
	case <-ctx.Done():
		return "", fmt.Errorf("fetch a token: %w", ctx.Err())
	}
	if f.last != "" && time.Now().Before(f.until) {
		return f.last, nil
	}
	asked := time.Now()
	t, err := f.config.Token(context.WithValue(ctx, oauth2.HTTPClient, f.client))
	if err != nil {
		return "", fmt.Errorf("fetch a token: %w", f.explain(err))
	}
	if err := checkToken(t.AccessToken); err != nil {
		return "", fmt.Errorf("fetch a token: what %s sent is none: %w", f.issuer, err)
	}
	if !t.Expiry.IsZero() {
		f.last, f.until = t.AccessToken, t.Expiry.Add(-min(tokenMargin, t.Expiry.Sub(asked)/4))
	}
	return t.AccessToken, nil
}

// refused forgets the token. One that is being fetched meanwhile is another one.
func (f *tokenFetcher) refused(ctx context.Context, token string) {
	select {
	case f.turn <- struct{}{}:
		defer func() { <-f.turn }()
	case <-ctx.Done():
		return
	}
	if f.last == token {
		f.last = ""
	}
}

// explain says what a server of tokens answered, in one line, or why none did.
func (f *tokenFetcher) explain(err error) error {
	var answer *oauth2.RetrieveError
	var unanswered *url.Error
	switch {
	case errors.As(err, &answer):
		text := f.issuer + " says " + answer.Response.Status
		for _, more := range []string{answer.ErrorCode, answer.ErrorDescription} {
			if more != "" {
				text += ": " + readable([]byte(more), f.config.ClientSecret)
			}
		}
		return errors.New(text)
	case errors.As(err, &unanswered):
		err = unanswered.Err
	}
	return fmt.Errorf("%s: %w", f.issuer, err)
}
