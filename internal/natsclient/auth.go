// SPDX-License-Identifier: Apache-2.0

package natsclient

import (
	"errors"
	"fmt"
	"os"

	gonats "github.com/nats-io/nats.go"
	"github.com/nats-io/nkeys"
)

// Auth is how the client proves who it is: one of the kinds, or none. It never prints.
type Auth struct {
	Token          string
	User, Password string
	// NKeyFile holds a user's NKey seed.
	NKeyFile string
	// CredsFile holds a user's JWT and seed. It is read again for each connection.
	CredsFile string
}

// String implements [fmt.Stringer] without telling anything.
func (Auth) String() string { return "[redacted]" }

// GoString implements [fmt.GoStringer] without telling anything.
func (Auth) GoString() string { return "[redacted]" }

func (a Auth) validate() error {
	kinds := 0
	for _, set := range []bool{a.Token != "", a.User != "" || a.Password != "", a.NKeyFile != "", a.CredsFile != ""} {
		if set {
			kinds++
		}
	}
	switch {
	case kinds > 1:
		return errors.New("auth: more than one of token, user, nkey, creds")
	case a.Password != "" && a.User == "":
		return errors.New("auth: a password without a user")
	case a.NKeyFile != "":
		return checkNKey(a.NKeyFile)
	case a.CredsFile != "":
		return checkCreds(a.CredsFile)
	}
	return nil
}

func checkNKey(file string) error {
	if _, err := gonats.NkeyOptionFromSeed(file); err != nil {
		return fmt.Errorf("nkey %s: %w", file, err)
	}
	return nil
}

func checkCreds(file string) error {
	b, err := os.ReadFile(file)
	if err != nil {
		return fmt.Errorf("creds: %w", err)
	}
	if _, err := nkeys.ParseDecoratedJWT(b); err != nil {
		return fmt.Errorf("creds %s: %w", file, err)
	}
	kp, err := nkeys.ParseDecoratedNKey(b)
	if err != nil {
		return fmt.Errorf("creds %s: %w", file, err)
	}
	kp.Wipe()
	return nil
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
