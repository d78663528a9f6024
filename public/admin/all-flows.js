import { ask } from '../shared/dialog.js'
import { errorSentence } from '../shared/errors.js'
import { name } from '../shared/format.js'
import { count, t } from '../shared/i18n.js'
import { html } from '../shared/lit.js'
import { toast } from '../shared/notices.js'
import { pauseChoice, reasonBody, reasonField } from './flow-actions.js'
import { reasonText } from './reason.js'

export function askPauseAll(app) {
  ask({
    title: t('pauseAll.title'),
    content: (form, dialog) =>
      html`<p>${count('pauseAll.text', app.flows.length)}</p>
        ${pauseChoice(form, dialog)} ${reasonField(form, dialog)}`,
    confirm: t('flows.pauseAll'),
    async run(form) {
      const { flows } = await app.api.post('/flows/pause', { body: reasonBody(form) })
      if (form.stops) await app.api.post('/sending/stop', { body: reasonBody(form) })
      toast(count('pauseAll.done', flows.length))
      app.reload()
    },
  })
}

/** Resumes even what somebody paused for a reason of his own, so the reasons are shown first. */
export function askResumeAll(app, paused) {
  ask({
    title: t('resumeAll.title'),
    content: () =>
      html`<p>${count('resumeAll.text', paused.length)}</p>
        <ul>
          ${paused.map(
            ({ name: flow, status }) =>
              html`<li>
                <span class="strong">${name(flow)}</span>
                ${status.reason ? html`<p class="small clip">${name(reasonText(status.why, status.reason))}</p>` : null}
              </li>`,
          )}
        </ul>`,
    confirm: t('flows.resumeAll'),
    async run() {
      const { flows } = await app.api.post('/flows/resume')
      toast(count('resumeAll.done', flows.length))
      app.reload()
    },
  })
}

export async function reloadFiles(app) {
  app.busy.add('* reload')
  app.redraw()
  try {
    const { flows, problems } = await app.api.post('/flows/reload')
    toast(`${count('reload.flows', flows.length)}, ${count('files.problems', problems.length)}`)
  } catch (error) {
    toast(errorSentence(error))
  }
  app.busy.delete('* reload')
  app.redraw()
  app.reload()
}
