// SPDX-License-Identifier: Apache-2.0

package kafka

import (
	"crypto/tls"

	"github.com/kube-eventbridge/kube-eventbridge/internal/tlsfiles"
)

// TLS is how the connection is protected. Any field that is set asks for TLS, as Enabled alone does.
type TLS struct {
	Enabled bool
	// CAFile holds what a broker's certificate is checked against (default: the system's). It is read once.
	CAFile string
	// CertFile and KeyFile are the client's certificate. They are read again for each connection.
	CertFile, KeyFile string
	// ServerName is the name in the brokers' certificates (default: the host connected to).
	ServerName string
}

// config returns nil where no TLS is asked for. The error says everything that is wrong with the files.
func (t TLS) config() (*tls.Config, error) {
	if t == (TLS{}) {
		return nil, nil
	}
	c, err := tlsfiles.Files{CA: t.CAFile, Cert: t.CertFile, Key: t.KeyFile}.Config()
	if err != nil {
		return nil, err
	}
	c.ServerName = t.ServerName
	return c, nil
}
