package top

import (
	"unicode"
	"unicode/utf8"

	"github.com/lockkeeper/lockkeeper/observability/live"
)

// Press does what a key does.
func (v View) Press(k Key) View {
	if k.Is == Interrupt {
		v.over = true
		return v
	}
	if v.typing {
		return v.write(k)
	}
	if k == (Key{Rune: 'q'}) {
		v.over = true
		return v
	}
	switch v.page {
	case lockPage:
		return v.pressLock(k)
	case help:
		return v.pressHelp(k)
	case list:
	}
	return v.pressList(k)
}

// longFilter is how long a filter may be.
const longFilter = 100

// write types the filter.
func (v View) write(k Key) View {
	switch {
	case k.Is == Esc:
		v.typing, v.filter = false, ""
	case k.Is == Enter:
		v.typing = false
	case k.Is == Erase:
		v.filter = ""
	case k.Is == Backspace && v.filter == "":
		v.typing = false
	case k.Is == Backspace:
		_, size := utf8.DecodeLastRuneInString(v.filter)
		v.filter = v.filter[:len(v.filter)-size]
	case k.Is == Letter && unicode.IsPrint(k.Rune) && utf8.RuneCountInString(v.filter) < longFilter:
		v.filter += string(k.Rune)
	case k.Is == Up || k.Is == Down || k.Is == PageUp || k.Is == PageDown:
		return v.pressList(k)
	default:
		return v
	}
	return v.arrange()
}

func (v View) pressList(k Key) View {
	switch step := v.step(k); {
	case step != 0:
		return v.choose(v.at + step)
	case k.Is == Home || k == (Key{Rune: 'g'}):
		v.chosen, v.at, v.first = "", 0, 0
		return v.settle()
	case k.Is == End || k == (Key{Rune: 'G'}):
		return v.choose(len(v.rows) - 1)
	case k.Is == Enter || k.Is == Right:
		return v.enter()
	case k.Is == Esc:
		v.filter = ""
		return v.arrange()
	}
	if k.Is != Letter {
		return v
	}
	switch k.Rune {
	case 's':
		v.order = (v.order + 1) % orders
	case 'r':
		v.backward = !v.backward
	case '/':
		v.typing = true
	case '?', 'h':
		return v.explain()
	}
	return v.arrange()
}

// step is how many rows a key moves.
func (v View) step(k Key) int {
	page := max(1, v.room()-1)
	if v.page != list {
		page = max(1, v.bodyRoom()-1)
	}
	switch {
	case k.Is == Up, k == Key{Rune: 'k'} && !v.typing:
		return -1
	case k.Is == Down, k == Key{Rune: 'j'} && !v.typing:
		return 1
	case k.Is == PageUp:
		return -page
	case k.Is == PageDown, k == Key{Rune: ' '} && !v.typing:
		return page
	}
	return 0
}

func (v View) choose(row int) View {
	if len(v.rows) == 0 {
		return v
	}
	v.at = max(0, min(row, len(v.rows)-1))
	v.chosen = v.rows[v.at].Scope
	return v.settle()
}

// enter opens the chosen lock.
func (v View) enter() View {
	if len(v.rows) == 0 {
		return v
	}
	v = v.choose(v.at)
	v.page, v.open, v.scroll, v.history = lockPage, v.chosen, 0, live.Timeline{}
	return v
}

func (v View) pressLock(k Key) View {
	switch {
	case k.Is == Esc, k.Is == Left, k.Is == Backspace:
		v.page, v.open, v.history = list, "", live.Timeline{}
		return v.settle()
	case k == Key{Rune: '?'}, k == Key{Rune: 'h'}:
		return v.explain()
	}
	return v.turn(k)
}

// turn scrolls a page of text.
func (v View) turn(k Key) View {
	switch {
	case k.Is == Home, k == Key{Rune: 'g'}:
		v.scroll = 0
	case k.Is == End, k == Key{Rune: 'G'}:
		v.scroll = len(v.body(Look{}))
	default:
		v.scroll += v.step(k)
	}
	return v.settle()
}

// explain opens the help.
func (v View) explain() View {
	v.behind, v.page, v.scroll = v.page, help, 0
	return v.settle()
}

func (v View) pressHelp(k Key) View {
	switch {
	case k.Is == Esc, k.Is == Left, k.Is == Backspace, k.Is == Enter, k == Key{Rune: '?'}, k == Key{Rune: 'h'}:
		v.page, v.scroll = v.behind, 0
		return v.settle()
	}
	return v.turn(k)
}
