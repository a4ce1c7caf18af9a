module paceline/test/acme

go 1.18

require github.com/letsencrypt/pebble/v2 v2.4.0

require (
	github.com/davecgh/go-spew v1.1.1 // indirect
	github.com/letsencrypt/challtestsrv v1.2.1 // indirect
	github.com/miekg/dns v1.1.48 // indirect
	github.com/pmezard/go-difflib v1.0.0 // indirect
	golang.org/x/crypto v0.23.0 // indirect
	golang.org/x/mod v0.17.0 // indirect
	golang.org/x/net v0.25.0 // indirect
	golang.org/x/sync v0.7.0 // indirect
	golang.org/x/sys v0.20.0 // indirect
	golang.org/x/tools v0.21.0 // indirect
	gopkg.in/square/go-jose.v2 v2.6.0 // indirect
	gopkg.in/yaml.v3 v3.0.1 // indirect
)
