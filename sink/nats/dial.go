// SPDX-License-Identifier: Apache-2.0

package nats

import (
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"os"

	gonats "github.com/nats-io/nats.go"
)

// Dial returns a connection to one of the servers of c, as whom and how c says; of c it looks at nothing but Servers, InProcess, Name,
// InboxPrefix, Auth and TLS. What options set comes on top of that. The error says everything that is wrong with these fields, or
// what [Explain] makes of the client's; it holds no secret.
func Dial(c Config, options ...gonats.Option) (*gonats.Conn, error) {
	c = c.withDefaults()
	if err := errors.Join(append(c.validateServers(), c.Auth.validate(), c.TLS.validate())...); err != nil {
		return nil, err
	}
	ours := append(c.Auth.options(), c.TLS.options()...)
	if c.InboxPrefix != "" {
		ours = append(ours, gonats.CustomInboxPrefix(c.InboxPrefix))
	}
	o := gonats.GetDefaultOptions()
	o.Servers, o.Name, o.InProcessServer = c.Servers, c.Name, c.InProcess
	for _, set := range append(ours, options...) {
		if err := set(&o); err != nil {
			return nil, Explain(err)
		}
	}
	nc, err := o.Connect()
	if err != nil {
		return nil, Explain(err)
	}
	return nc, nil
}

// Explain says what to look at where the library's error only says that something failed. Any other error it returns as it is.
func Explain(err error) error {
	switch {
	case errors.Is(err, gonats.ErrAuthorization), errors.Is(err, gonats.ErrAuthExpired), errors.Is(err, gonats.ErrAuthRevoked),
		errors.Is(err, gonats.ErrAccountAuthExpired), errors.Is(err, gonats.ErrNkeysNotSupported):
		return fmt.Errorf("the broker refuses the credentials: %w", err)
	case errors.Is(err, gonats.ErrSecureConnWanted):
		return fmt.Errorf("TLS is configured here and not on the server: %w", err)
	case errors.Is(err, gonats.ErrSecureConnRequired):
		return fmt.Errorf("the server requires TLS: %w", err)
	default:
		return err
	}
}

func (a Auth) options() []gonats.Option {
	switch {
	case a.Token != "":
		return []gonats.Option{gonats.Token(a.Token)}
	case a.User != "":
		return []gonats.Option{gonats.UserInfo(a.User, a.Password)}
	case a.NKeyFile != "":
		return []gonats.Option{func(o *gonats.Options) error {
			opt, err := gonats.NkeyOptionFromSeed(a.NKeyFile)
			if err != nil {
				return fmt.Errorf("nkey %s: %w", a.NKeyFile, err)
			}
			return opt(o)
		}}
	case a.CredsFile != "":
		return []gonats.Option{gonats.UserCredentials(a.CredsFile)}
	default:
		return nil
	}
}

func (t TLS) validate() error {
	if (t.CertFile == "") != (t.KeyFile == "") {
		return errors.New("tls: a certificate and its key go together")
	}
	if t.CertFile != "" {
		if _, err := tls.LoadX509KeyPair(t.CertFile, t.KeyFile); err != nil {
			return fmt.Errorf("tls: certificate %s with key %s: %w", t.CertFile, t.KeyFile, err)
		}
	}
	if t.CAFile != "" {
		pem, err := os.ReadFile(t.CAFile)
		if err != nil {
			return fmt.Errorf("tls: CA: %w", err)
		}
		if !x509.NewCertPool().AppendCertsFromPEM(pem) {
			return fmt.Errorf("tls: CA %s: no certificate in it", t.CAFile)
		}
	}
	return nil
}

func (t TLS) options() []gonats.Option {
	if t == (TLS{}) {
		return nil
	}
	opts := []gonats.Option{gonats.Secure(&tls.Config{
		MinVersion:         tls.VersionTLS12,
		ServerName:         t.ServerName,
		InsecureSkipVerify: t.InsecureSkipVerify, //nolint:gosec // asked for by name
	})}
	if t.CAFile != "" {
		opts = append(opts, gonats.RootCAs(t.CAFile))
	}
	if t.CertFile != "" {
		opts = append(opts, gonats.ClientCert(t.CertFile, t.KeyFile))
	}
	if t.HandshakeFirst {
		opts = append(opts, gonats.TLSHandshakeFirst())
	}
	return opts
}
