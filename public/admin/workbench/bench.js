import { ConnectionError } from '../../shared/api.js'
import { ask } from '../../shared/dialog.js'
import { errorLines } from '../../shared/errors.js'
import { name, number, time } from '../../shared/format.js'
import { count, t, word } from '../../shared/i18n.js'
import { draw, html } from '../../shared/lit.js'
import { announce } from '../../shared/notices.js'
import { badge, note } from '../../shared/parts.js'
import { problemText } from '../reason.js'
import { button, panel, smallButton } from '../views/list-parts.js'
import { completionsAt } from './completion.js'
import { createConnections } from './connections.js'
import { dryRunReport } from './dry-run.js'

/** The checker is asked once somebody has stopped typing for so long. */
const settleMs = 500
/** Texts that nobody has saved, by the question of the address: going to another view does not lose them. */
const drafts = new Map()

addEventListener('beforeunload', (event) => {
  if (drafts.size > 0) event.preventDefault()
})

/** One flow file in the editor: what the checker says, a dry run, saves and earlier versions. */
export function createBench(app) {
  let bench
  let editor
  let schema
  let timer
  const connections = createConnections(app)

  const questionOf = ({ file, template, from, name: flow }) =>
    JSON.stringify(file ? { file } : { template, from, flow })

  async function load(signal) {
    const question = questionOf(app.query)
    schema ??= app.api.get('/flow-schema', {}).catch(() => undefined)
    if (bench?.question === question) return
    const read = app.query.file ? await readFile(signal) : await readTemplate(signal)
    const draft = drafts.get(question)
    bench = { ...read, question, text: draft?.text ?? read.text, base: draft?.base ?? read.base }
    bench.isDraft = draft !== undefined
    editor = undefined
    await connections.load(signal)
    if (mayTry.has(bench.readOnly?.code)) await check()
  }

  async function readFile(signal) {
    const { file } = app.query
    const found = await app.api.get(filePath(file), {}, signal)
    const { text, hash: base, versions } = found
    const readOnly = whyReadOnly(app, found)
    return { file, text, saved: text, base, readOnly, versions, problems: [] }
  }

  async function readTemplate(signal) {
    const { template, from, name: flow } = app.query
    const path = `/flow-templates/${encodeURIComponent(template)}`
    const [{ text }, files] = await Promise.all([
      app.api.get(path, { from, name: flow }, signal),
      app.api.get('/flow-files', {}, signal),
    ])
    const readOnly = whyReadOnly(app, files)
    const made = { text, saved: undefined, base: null, readOnly, versions: [] }
    return { file: undefined, ...made, problems: [] }
  }

  /** Asks the checker; of a file that is about to be saved also about the files beside it. */
  async function check(file = bench.file) {
    const of = bench
    const { text } = of
    const checked = await app.api.post('/flow-definitions/check', { body: { text, file } })
    if (of !== bench || of.text !== text) return checked
    Object.assign(of, checked, { name: checked.name ?? of.name, isChecked: true })
    editor?.show(of.problems.map(({ line, column, ...one }) => ({ line, column, text: told(one) })))
    app.redraw()
    return checked
  }

  function onChange(text) {
    Object.assign(bench, { text, isChecked: false })
    if (text === bench.saved) drafts.delete(bench.question)
    else drafts.set(bench.question, { text, base: bench.base })
    clearTimeout(timer)
    timer = setTimeout(() => check().catch(() => undefined), settleMs)
    app.redraw()
  }

  async function mount(element) {
    const of = bench
    if (editor?.element === element || !of) return
    editor = { element, show: () => undefined }
    try {
      const { createEditor } = await import('./editor.js')
      if (of !== bench || !element.isConnected) return
      const made = createEditor(element, {
        text: of.text,
        label: t('bench.text'),
        isReadOnly: of.readOnly !== null,
        phrases: { Diagnostics: t('bench.findings'), Completions: t('bench.completions') },
        complete: async (...place) => {
          const known = await schema
          return known ? completionsAt(connections.named(known), ...place) : null
        },
        onChange,
      })
      editor = { element, ...made }
      if (of.isChecked) {
        editor.show(of.problems.map((one) => ({ ...one, text: told(one) })))
      }
    } catch (error) {
      of.failure = error instanceof TypeError ? new ConnectionError(error) : error
      if (of.failure.code === undefined) reportError(error)
      app.redraw()
    }
  }

  /** Does one thing at a time, and shows how it went. */
  async function work(what, run) {
    if (bench.busy) return
    const of = bench
    Object.assign(of, { busy: what, failure: undefined, done: undefined })
    app.redraw()
    try {
      await run(of)
    } catch (error) {
      of.failure = error
    }
    of.busy = undefined
    app.redraw()
  }

  /** Answers whether the text is right; else the first finding is shown. */
  async function isRight(of, file) {
    const { problems } = await check(file)
    if (problems.length === 0) return true
    of.done = { tone: 'bad', text: count('bench.first', problems.length) }
    announce(of.done.text)
    editor?.goTo?.(problems[0].line, problems[0].column)
    return false
  }

  const dryRun = () =>
    work('run', async (of) => {
      of.run = undefined
      if (!(await isRight(of))) return
      const { text, file } = of
      of.run = await app.api.post('/flow-definitions/dry-run', { body: { text, file } })
      announce(count('bench.ran', of.run.records.length))
    })

  /** Asks whether all that the source holds may be sent, with the number where it can be counted. */
  async function mayBeSent({ text, file, name: flow }) {
    const found = await app.api
      .post('/flow-definitions/dry-run', { body: { text, file, count: true } })
      .catch((error) => ({ error }))
    return new Promise((resolve) => {
      ask({
        title: t('bench.sends', { flow }),
        content: () => html`<p class="strong">${willBeSent(found)}</p>
          ${found.error ? errorLines(found.error) : null}
          <p>${t('bench.sendsHint')}</p>`,
        confirm: t('bench.sendsConfirm'),
        run: async () => resolve(true),
        onClose: () => resolve(false),
      })
    })
  }

  const save = () =>
    work('save', async (of) => {
      // A new file is called as its flow.
      const { name: flow } = of.file ? of : await check()
      const file = of.file ?? `${flow ?? 'flow'}.flow.yaml`
      if (!(await isRight(of, file))) return
      if (of.sends_at_once && !(await mayBeSent(of))) return
      const { text, base } = of
      const saved = await app.api.put(filePath(file), { body: { text, base } })
      drafts.delete(of.question)
      const question = questionOf({ file })
      Object.assign(of, { file, question, base: saved.hash, saved: text, name: saved.name })
      of.isDraft = false
      of.done = {
        tone: saved.problems.length > 0 ? 'bad' : 'good',
        text: t('bench.saved'),
        flow: saved.name,
      }
      announce(of.done.text)
      location.replace(app.link('workbench', { file }))
      const { versions } = await app.api.get(filePath(file), {})
      of.versions = versions
      app.reload()
    })

  /** Puts another text into the editor; it is saved like any other. */
  const replace = (text) => {
    if (editor?.setText) editor.setText(text)
    else onChange(text)
    editor?.focus?.()
  }

  const restore = (version) =>
    work('version', async (of) => {
      const path = `${filePath(of.file)}/versions/${encodeURIComponent(version)}`
      replace((await app.api.get(path, {})).text)
      of.done = { tone: 'info', text: t('bench.restored') }
    })

  const readAgain = () =>
    ask({
      title: t('bench.readAgain'),
      content: () => html`<p>${t('bench.readAgainText')}</p>`,
      confirm: t('bench.readAgain'),
      danger: true,
      async run() {
        drafts.delete(bench.question)
        bench = undefined
        app.reload()
      },
    })

  return { load, body }

  function body() {
    if (bench?.question !== questionOf(app.query)) return app.placeholder()
    const { file, readOnly, run, versions, isDraft } = bench
    return html`<p><a href=${app.link('workbench')}>← ${t('bench.all')}</a></p>
      ${readOnly === null ? null : readOnlyNote(readOnly)}
      ${isDraft ? note('info', html`<p>${t('bench.draft')}</p>`) : null}
      <section class="panel bench" aria-labelledby="file">
        <div class="panel-head">
          <h2 id="file">${file ? name(file) : t('bench.new')}</h2>
          <span class="badges">
            ${bench.text === bench.saved ? null : badge('warn', t('bench.unsaved'))}
            ${verdict()}
          </span>
        </div>
        <div class="editor" ${draw((element) => void mount(element))}></div>
        <p class="soft small">${t('bench.keys')}</p>
        ${findings()}
        <div class="buttons">
          ${mayTry.has(readOnly?.code) ? button({ text: t(bench.busy === 'run' ? 'bench.running' : 'bench.run'), disabled: Boolean(bench.busy), onclick: () => void dryRun() }) : null}
          ${
            readOnly === null
              ? button({
                  text: t(bench.busy === 'save' ? 'dialog.busy' : 'bench.save'),
                  extra: 'main',
                  disabled: Boolean(bench.busy) || bench.text === bench.saved,
                  onclick: () => void save(),
                })
              : null
          }
          ${file ? button({ text: t('bench.readAgain'), disabled: Boolean(bench.busy), onclick: readAgain }) : null}
        </div>
        <div role="status">${bench.done ? doneNote(bench.done) : null}</div>
        <div role="alert">${bench.failure ? failureNote(bench.failure) : null}</div>
      </section>
      ${run ? dryRunReport(run) : null}
      ${connections.body()}
      ${versions.length > 0 ? versionList(versions) : null}`
  }

  function verdict() {
    if (!mayTry.has(bench.readOnly?.code)) return null
    if (!bench.isChecked) return badge('quiet', t('bench.checking'))
    const many = bench.problems.length
    return many === 0 ? badge('good', t('bench.right')) : badge('bad', count('bench.wrong', many))
  }

  /** The same as beside the lines, to be reached by keyboard and read out. */
  function findings() {
    if (bench.problems.length === 0) return null
    const list = (problems) =>
      html`<ul class="problems" aria-label=${t('bench.findings')}>
      ${problems.map(
        ({ line, column, key, ...one }) =>
          html`<li>
            ${smallButton({
              text: t('bench.line', { line: number(line) }),
              onclick: () => editor?.goTo?.(line, column),
            })}
            ${key ? html`<code class="strong">${name(key)}</code>` : null}
            <span class="clip">${name(told(one))}</span>
          </li>`,
      )}
    </ul>`
    const more = bench.problems.slice(findingsAtOnce)
    return [
      list(bench.problems.slice(0, findingsAtOnce)),
      more.length === 0
        ? null
        : html`<details class="more">
            <summary>${t('errors.more', { count: number(more.length) })}</summary>
            ${list(more)}
          </details>`,
    ]
  }

  function doneNote({ tone, text, flow }) {
    return note(
      tone,
      html`<p class="strong">${text}</p>
        ${
          flow
            ? html`<p><a href=${app.link('flows', { flow })}>${t('bench.toFlow', { flow })}</a></p>`
            : null
        }`,
    )
  }

  function failureNote(failure) {
    const isChanged = failure.status === 409 && bench.file
    return note(
      'bad',
      isChanged ? html`<p class="strong">${t('bench.changed')}</p>` : errorLines(failure),
      failure.status === 403 && !failure.body?.why
        ? html`<p class="clip">${name(failure.message)}</p>`
        : null,
    )
  }

  function versionList(versions) {
    const list = html`<ul class="plain-list items">
      ${versions.map(
        ({ version, replaced_at: at }) =>
          html`<li>
            <span>${t('bench.until')} ${time(at)}</span>
            ${smallButton({
              text: t('bench.restore'),
              disabled: Boolean(bench.busy) || bench.readOnly !== null,
              onclick: () => void restore(version),
            })}
          </li>`,
      )}
    </ul>`
    return panel(t('bench.versions'), list, { hint: t('bench.versionsHint') })
  }
}

/** More would hide what stands below them; the rest opens at a press. */
const findingsAtOnce = 8

/** What keeps only from saving, and not from a dry run. */
const mayTry = new Set([undefined, 'folder', 'link'])

/** Why this person cannot save the file, or any: `{ code, message }`; null for who can. */
export function whyReadOnly(app, { read_only: message, read_only_code: code }) {
  if (!app.may('run_flows')) return { code: 'role', message: t('role.readsFlows') }
  return message === null ? null : { code, message }
}

export function readOnlyNote({ code: why, message }) {
  const words = word('whyReadOnly', why)
  return note(
    'warn',
    html`<p class="strong">${t('bench.readOnly')}</p>
      <p class="small clip">${words === why ? name(message) : words}</p>`,
  )
}

function willBeSent({ error, records_read: records, cut_off: cutOff }) {
  if (error) return t('bench.sendsUncounted')
  return cutOff === 'time'
    ? t('bench.sendsAtLeast', { count: number(records) })
    : count('bench.sendsCount', records)
}

function filePath(file) {
  return `/flow-files/${encodeURIComponent(file)}`
}

function told(problem) {
  const { message, hint } = problemText(problem)
  return hint ? `${message} → ${hint}` : message
}
