import { addTexts } from '../shared/i18n.js'
import { eventsPageTexts as en } from './texts/events-page-en.js'
import { eventsPageTexts as es } from './texts/events-page-es.js'

// They come with the views that show them: the first view has no use for them.
addTexts({ en, es })
