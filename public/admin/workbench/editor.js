import {
  autocompletion,
  closeBrackets,
  closeBracketsKeymap,
  completionKeymap,
} from '@codemirror/autocomplete'
import { defaultKeymap, history, historyKeymap } from '@codemirror/commands'
import { yaml } from '@codemirror/lang-yaml'
import {
  bracketMatching,
  HighlightStyle,
  indentUnit,
  syntaxHighlighting,
} from '@codemirror/language'
import { lintGutter, lintKeymap, setDiagnostics } from '@codemirror/lint'
import { EditorState, StateEffect, StateField } from '@codemirror/state'
import {
  Decoration,
  drawSelection,
  EditorView,
  highlightActiveLine,
  keymap,
  lineNumbers,
  WidgetType,
} from '@codemirror/view'
import { tags } from '@lezer/highlight'

/**
 * An editor for YAML inside `host`. It stands in a shadow root: there its style sheets are constructed ones, which the content
 * security policy of the page allows. Tab leaves it. `complete(lines, line, column)` answers `{ from, options }` or null, with
 * lines and columns from 0; `onChange(text)` hears of every change.
 */
export function createEditor(host, { text, label, isReadOnly, phrases, complete, onChange }) {
  const root = host.shadowRoot ?? host.attachShadow({ mode: 'open' })
  root.replaceChildren()
  const view = new EditorView({
    root,
    parent: root,
    state: EditorState.create({
      doc: text,
      extensions: [
        lineNumbers(),
        history(),
        drawSelection(),
        highlightActiveLine(),
        bracketMatching(),
        closeBrackets(),
        yaml(),
        indentUnit.of('  '),
        syntaxHighlighting(colors),
        lintGutter(),
        findingsBeside,
        autocompletion({ override: [completionsOf(complete)], icons: false }),
        keymap.of([
          ...closeBracketsKeymap,
          ...defaultKeymap,
          ...historyKeymap,
          ...completionKeymap,
          ...lintKeymap,
        ]),
        EditorState.readOnly.of(isReadOnly),
        EditorState.phrases.of(phrases),
        EditorView.lineWrapping,
        EditorView.contentAttributes.of({
          'aria-label': label,
          spellcheck: 'false',
          tabindex: '0',
        }),
        typedOver,
        EditorView.updateListener.of(({ docChanged, state }) => {
          if (docChanged) onChange(state.doc.toString())
        }),
        look,
      ],
    }),
  })
  return {
    text: () => view.state.doc.toString(),
    setText(next) {
      view.dispatch({ changes: { from: 0, to: view.state.doc.length, insert: next } })
    },
    /** `findings` are `{ line, column, text }`, from 1. */
    show(findings) {
      const { doc } = view.state
      const placed = findings.map(({ line, column, text: message }) => {
        const at = doc.line(Math.min(Math.max(line, 1), doc.lines))
        const from = Math.min(at.from + column - 1, at.to)
        return { from, to: Math.max(from, at.to), severity: 'error', message }
      })
      view.dispatch(setDiagnostics(view.state, placed))
      view.dispatch({ effects: shownFindings.of(placed) })
    },
    goTo(line, column) {
      const at = view.state.doc.line(Math.min(line, view.state.doc.lines))
      const anchor = Math.min(at.from + column - 1, at.to)
      view.dispatch({ selection: { anchor }, scrollIntoView: true })
      view.focus()
    },
    focus: () => view.focus(),
    destroy: () => view.destroy(),
  }
}

function completionsOf(complete) {
  return async (context) => {
    const { doc } = context.state
    const line = doc.lineAt(context.pos)
    const lines = doc.toString().split('\n')
    const found = await complete(lines, line.number - 1, context.pos - line.from)
    // Suggestions that come after the focus left would stay.
    if (context.view?.hasFocus === false) return null
    if (!found || (!context.explicit && found.from === context.pos - line.from)) return null
    return {
      from: line.from + found.from,
      options: found.options.map(({ label, apply, detail, info, isNeeded }) => ({
        label,
        apply,
        detail,
        info,
        boost: isNeeded ? 1 : 0,
      })),
      validFor: /^[\w.-]*$/,
    }
  }
}

/**
 * Types over a selection by a change of the text: browsers would do it by elements with styles, which the content security policy
 * refuses.
 */
const typedOver = EditorView.domEventHandlers({
  beforeinput(event, view) {
    const { state } = view
    const { main } = state.selection
    const { inputType, data } = event
    if (inputType !== 'insertText' || data === null || main.empty || state.readOnly) return false
    event.preventDefault()
    const insert = () =>
      state.update(state.replaceSelection(data), { userEvent: 'input.type', scrollIntoView: true })
    const isTaken = state
      .facet(EditorView.inputHandler)
      .some((take) => take(view, main.from, main.to, data, insert))
    if (!isTaken) view.dispatch(insert())
    return true
  },
})

/** The message of a finding at the end of its line, for whoever points at nothing. */
class Beside extends WidgetType {
  constructor(text) {
    super()
    this.text = text
  }

  eq(other) {
    return other.text === this.text
  }

  toDOM() {
    const element = document.createElement('span')
    element.className = 'beside'
    element.textContent = this.text
    return element
  }
}

const shownFindings = StateEffect.define()
const findingsBeside = StateField.define({
  create: () => Decoration.none,
  update(shown, { effects, changes, state }) {
    const findings = effects.find((effect) => effect.is(shownFindings))?.value
    if (!findings) return shown.map(changes)
    const marks = findings.map(({ from, message }) =>
      Decoration.widget({ widget: new Beside(message), side: 1 }).range(state.doc.lineAt(from).to),
    )
    return Decoration.set(marks, true)
  },
  provide: (field) => EditorView.decorations.from(field),
})

const colors = HighlightStyle.define([
  { tag: [tags.propertyName, tags.definition(tags.propertyName)], color: 'var(--info)' },
  { tag: [tags.string, tags.special(tags.string)], color: 'var(--good)' },
  { tag: tags.comment, color: 'var(--soft)' },
  { tag: [tags.number, tags.bool, tags.keyword], color: 'var(--moved)' },
  { tag: [tags.labelName, tags.typeName], color: 'var(--warn)' },
])

const look = EditorView.theme({
  '&': {
    color: 'var(--ink)',
    backgroundColor: 'var(--panel)',
    border: '1px solid var(--edge)',
    borderRadius: '0.5rem',
    fontSize: '0.9rem',
    overflow: 'hidden',
  },
  '&.cm-focused': { outline: '3px solid var(--accent)', outlineOffset: '1px' },
  '.cm-scroller': {
    fontFamily: 'ui-monospace, SFMono-Regular, Menlo, Consolas, monospace',
    maxHeight: '70vh',
    overflow: 'auto',
  },
  '.cm-content': { caretColor: 'var(--ink)', padding: '0.5rem 0' },
  '.cm-cursor': { borderLeftColor: 'var(--ink)' },
  '.cm-gutters': {
    backgroundColor: 'var(--sunk)',
    color: 'var(--soft)',
    borderRight: '1px solid var(--line)',
  },
  '.cm-activeLine': { backgroundColor: 'color-mix(in srgb, var(--accent) 8%, transparent)' },
  '&.cm-focused > .cm-scroller > .cm-selectionLayer .cm-selectionBackground, .cm-selectionBackground':
    { backgroundColor: 'var(--accent-soft)' },
  '.cm-tooltip': {
    backgroundColor: 'var(--panel)',
    color: 'var(--ink)',
    border: '1px solid var(--edge)',
    borderRadius: '0.4rem',
    maxWidth: 'min(30rem, 90vw)',
  },
  '.cm-tooltip.cm-tooltip-autocomplete > ul > li[aria-selected]': {
    backgroundColor: 'var(--accent)',
    color: 'var(--accent-ink)',
  },
  '.cm-completionDetail': { color: 'inherit', fontStyle: 'normal' },
  '.cm-completionInfo': { padding: '0.4rem 0.6rem', maxWidth: '22rem' },
  '.cm-diagnostic-error': { borderLeftColor: 'var(--bad)' },
  '.beside': {
    marginLeft: '1.5ch',
    padding: '0 0.5ch',
    borderRadius: '0.3rem',
    color: 'var(--bad)',
    backgroundColor: 'var(--bad-soft)',
    fontFamily: 'system-ui, sans-serif',
  },
})
