package main

import "github.com/lockkeeper/lockkeeper/observability/views"

// What commands show of groups is what the console shows.
type groupView = views.Group
