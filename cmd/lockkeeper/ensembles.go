package main

import (
	"github.com/lockkeeper/lockkeeper/config"
	"github.com/lockkeeper/lockkeeper/recipes"
)

// route connects to the ensembles that have the locks of some scopes. Like home, they
// need not be there: until they are, their locks alone are waited for.
func route(home *recipes.Client, cfg *config.Config) (_ *recipes.Router, end func(), err error) {
	var clients []*recipes.Client
	closeAll := func() {
		for _, client := range clients {
			closeClient(client)
		}
	}
	defer func() {
		if err != nil {
			closeAll()
		}
	}()
	prefixes := make(map[string]*recipes.Client)
	for _, e := range cfg.Ensembles {
		settings := e.Client(cfg.Client)
		if settings.Logger != nil {
			settings.Logger = settings.Logger.With("ensemble", e.Name)
		}
		client, err := recipes.NewClient(settings)
		if err != nil {
			return nil, nil, err
		}
		clients = append(clients, client)
		for _, prefix := range e.Prefixes {
			prefixes[prefix] = client
		}
	}
	router, err := recipes.NewRouter(home, prefixes)
	return router, closeAll, err
}
