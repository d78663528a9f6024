import { addTexts } from '../shared/i18n.js'
import { historyPageTexts as en } from './texts/history-page-en.js'
import { historyPageTexts as es } from './texts/history-page-es.js'

// They come with the views that show them: the first view has no use for them.
addTexts({ en, es })
