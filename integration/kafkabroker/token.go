// SPDX-License-Identifier: Apache-2.0

package kafkabroker

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"time"
)

// What tokens say and brokers expect.
const (
	tokenIssuer   = "https://issuer.test"
	tokenAudience = "kafka"
	tokenKey      = "1"
)

// issuer signs the tokens of one cluster. Brokers read its public key from a file, so that no server has to offer it.
type issuer struct {
	key  *ecdsa.PrivateKey
	keys string // path of the file with the public key
}

func newIssuer(dir string) (*issuer, error) {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return nil, fmt.Errorf("make key of tokens: %w", err)
	}
	i := &issuer{key: key, keys: filepath.Join(dir, "jwks.json")}
	point, err := key.PublicKey.Bytes() // 4, x, y
	if err != nil {
		return nil, fmt.Errorf("encode key of tokens: %w", err)
	}
	public := map[string]string{
		"kty": "EC", "use": "sig", "alg": "ES256", "crv": "P-256", "kid": tokenKey,
		"x": encode(point[1:33]), "y": encode(point[33:]),
	}
	keys, err := json.Marshal(map[string]any{"keys": []any{public}})
	if err != nil {
		return nil, fmt.Errorf("encode key of tokens: %w", err)
	}
	if err := os.WriteFile(i.keys, keys, 0o600); err != nil {
		return nil, fmt.Errorf("write key of tokens: %w", err)
	}
	return i, nil
}

// Token returns a signed JSON Web Token with which OAUTHBEARER takes a client for a user, who need not be one of
// [Config].Users. A lifetime that is not positive makes one that has expired already.
func (c *Cluster) Token(user string, lifetime time.Duration) (string, error) {
	now := time.Now()
	header, err := json.Marshal(map[string]string{"alg": "ES256", "typ": "JWT", "kid": tokenKey})
	if err != nil {
		return "", fmt.Errorf("encode token: %w", err)
	}
	claims, err := json.Marshal(map[string]any{
		"iss": tokenIssuer, "aud": tokenAudience, "sub": user, "scope": "kafka",
		"iat": now.Add(min(0, lifetime) - time.Minute).Unix(), "exp": now.Add(lifetime).Unix(),
	})
	if err != nil {
		return "", fmt.Errorf("encode token: %w", err)
	}
	signed := encode(header) + "." + encode(claims)
	sum := sha256.Sum256([]byte(signed))
	r, v, err := ecdsa.Sign(rand.Reader, c.issuer.key, sum[:])
	if err != nil {
		return "", fmt.Errorf("sign token: %w", err)
	}
	var signature [64]byte
	r.FillBytes(signature[:32])
	v.FillBytes(signature[32:])
	return signed + "." + encode(signature[:]), nil
}

func encode(b []byte) string { return base64.RawURLEncoding.EncodeToString(b) }

// options tells java which file brokers may read keys from; without it they refuse.
func (i *issuer) options() []string {
	return []string{"-Dorg.apache.kafka.sasl.oauthbearer.allowed.urls=" + i.url()}
}

func (i *issuer) url() string { return "file://" + filepath.ToSlash(i.keys) }

func (i *issuer) properties() map[string]string {
	return map[string]string{
		"sasl.oauthbearer.jwks.endpoint.url": i.url(),
		"sasl.oauthbearer.expected.issuer":   tokenIssuer,
		"sasl.oauthbearer.expected.audience": tokenAudience,
	}
}
