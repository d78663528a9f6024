import { duration, name, number, relative } from '../../shared/format.js'
import { t } from '../../shared/i18n.js'
import { html, repeat } from '../../shared/lit.js'
import { badge, facts, note } from '../../shared/parts.js'
import { askQuestion, askReset, askResync, isBusy, testAlerts } from '../flow-actions.js'
import { isToldApart, isTrouble } from '../flow-health.js'
import { problemText, reasonText } from '../reason.js'
import { stopNotes } from '../sending.js'
import {
  dashboardLink,
  deed,
  flowHref,
  healthBadge,
  mainDeeds,
  nextRun,
  nextTry,
  owedBadges,
  pausedNote,
  resultOf,
  switchBadges,
  troubleOf,
  tryButton,
  waitingNote,
  when,
} from './flow-parts.js'
import { smallRunButton } from './list-parts.js'
import { spark } from './spark.js'

/** One flow: how it is, what it is doing, what it owes to whom, and what can be done. With `isWhole` it is all of the page. */
export function flowCard(app, { flow, health }, isWhole = false) {
  const { status, description, last_error: error } = flow
  const isTold = health.destination === undefined && health.cause === 'source_failing'
  return html`<article class="panel flow is-${health.state}" aria-labelledby="flow-${flow.name}">
    <div class="flow-head">
      <h2 id="flow-${flow.name}" class=${isWhole ? 'visually-hidden' : ''}>
        ${isWhole ? name(flow.name) : html`<a href=${flowHref(app, flow)}>${name(flow.name)}</a>`}
      </h2>
      <span class="badges">${switchBadges(status, flow.waiting_for !== null)} ${healthBadge(health)}</span>
    </div>
    ${description ? html`<p class="soft small clip">${name(description)}</p>` : null}
    ${status.paused ? pausedNote(status) : null}
    ${isWhole ? stopNotes(app, [flow]) : null}
    ${isTrouble(health) && !isToldApart(health) ? note(health.state === 'down' ? 'bad' : 'warn', troubleOf(app, flow, health)) : null}
    ${formerDefinition(app, flow)} ${waitingNote(flow)}
    ${flow.question ? questionNote(app, flow) : null}
    ${flow.progress ? progressOf(flow) : null} ${figures(flow)} ${destinations(app, flow, health, isWhole)}
    ${error && !isTold ? note('bad', html`<p class="small clip">${t('flow.lastError')}: ${name(reasonText(flow.last_error_why, error))}</p>`) : null}
    ${resultOf(app, flow)}
    ${buttons(app, flow, isWhole)}
  </article>`
}

/** A flow whose file cannot be used goes on by the definition that it had. */
function formerDefinition(app, flow) {
  const problem = app.problems.find(({ file }) => file === flow.file)
  if (!problem) return null
  const { line, column, key } = problem
  return note(
    'warn',
    html`<p class="small strong">${t('flow.formerDefinition')}</p>
      <p class="small clip">
        <a href=${app.link('workbench', { file: flow.file })}>${name(`${flow.file}:${line}:${column}`)}</a>
        ${name([key, problemText(problem).message].filter(Boolean).join(' '))}
      </p>`,
  )
}

/** What the flow asks. Until an operator answers it waits, and the source is read as always. */
function questionNote(app, flow) {
  const { about, reason, why, asked_at: since } = flow.question
  return note(
    'warn',
    html`<p class="small strong">${t(`question.${about}Note`)} ${since === null ? null : relative(since)}</p>
      <p class="small">${name(reasonText(why, reason))}</p>
      ${smallRunButton(app, {
        text: t('do.answer'),
        disabled: isBusy(app, flow, 'answer'),
        onclick: () => askQuestion(app, flow),
      })}`,
  )
}

function progressOf({ progress: { rows_read: rows, changes, started_at: startedAt } }) {
  return html`<div class="progress">
    <span class="progress-bar" aria-hidden="true"></span>
    <p class="small">
      ${t('flow.progress', { rows: number(rows), changes: number(changes) })} · ${relative(startedAt)}
    </p>
  </div>`
}

function figures(flow) {
  const { durations, last_success_at: success } = flow
  const last = durations.at(-1)
  const lasted = () => html`<div class="durations">
    ${spark(durations)}
    <span class="soft small">
      ${t('flow.duration', { last: duration(last), top: duration(Math.max(...durations)) })}
    </span>
  </div>`
  return html`${facts([
    [t('flow.lastRun'), when(flow.last_poll_at)],
    [t('flow.nextRun'), nextRun(flow)],
    [t('flow.changesToday'), number(flow.changes_today)],
    [t('flow.items'), number(flow.items)],
    [t('flow.lastSuccess'), success === flow.last_poll_at ? null : when(success)],
  ])}
  ${last === undefined ? null : lasted()}`
}

function destinations(app, flow, health, isWhole) {
  return html`<ul class="targets" aria-label=${t('flow.destinations')}>
    ${repeat(
      flow.destinations,
      (destination) => destination.name,
      (destination) => {
        const { name: target, type, oldest_waiting_at: oldest, sending } = destination
        // What stands above already is not said twice.
        const isTold = health.destination?.name === target && isTrouble(health)
        return html`<li>
          <span class="target"><a class="strong" href=${app.link('destinations', { name: target })}>${name(target)}</a> <span class="soft small">${type}</span></span>
          <span class="badges">${owedBadges(app, flow, destination)}</span>
          ${oldest ? html`<span class="soft small oldest">${t('target.oldest')} ${relative(oldest)}</span>` : null}
          ${sending.state === 'flowing' || isTold ? null : inTheWay(app, flow, destination)}
          ${isWhole ? deed(app, flow, 'resyncOne', () => askResync(app, flow, target)) : null}
        </li>`
      },
    )}
  </ul>`
}

/** Why a destination is sent nothing now, or less than is pending. */
function inTheWay(app, flow, destination) {
  const { state, cause, why } = destination.sending
  const words = reasonText(why, cause)
  return html`<span class="small oldest" title=${words ?? ''}>
    ${badge('warn', t(`sending.${state}`))}
    ${nextTry(destination.sending)} ${words ? html`<span class="soft clip">${name(words)}</span>` : null}
    ${state === 'stopped' ? null : tryButton(app, flow, destination)}
  </span>`
}

function buttons(app, flow, isWhole) {
  const one = (action, ask, extra) => deed(app, flow, action, () => ask(app, flow), extra)
  const rest = html`<div class="buttons">
    ${flow.has_alerts ? one('alerts', testAlerts) : null} ${one('reset', askReset, 'danger')}
    ${one('resync', askResync, 'danger')}
    <a class="button small" href=${app.link('activity', { flow: flow.name })}>${t('nav.activity')}</a>
    ${isWhole ? html`<a class="button small" href=${app.link('workbench', { file: flow.file })}>${t('bench.toFile')}</a>` : null}
    ${dashboardLink(app, flow)}
    ${isWhole ? null : html`<a class="button small" href=${flowHref(app, flow)}>${t('flow.runsTitle')}</a>`}
  </div>`
  return html`<div class="flow-buttons">
    ${mainDeeds(app, flow)}
    ${isWhole ? rest : html`<details class="more"><summary>${t('flow.more')}</summary>${rest}</details>`}
  </div>`
}
