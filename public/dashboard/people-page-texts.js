import { addTexts } from '../shared/i18n.js'
import { peoplePageTexts as en } from './texts/people-page-en.js'
import { peoplePageTexts as es } from './texts/people-page-es.js'

// They come with the views that show them: the first view has no use for them.
addTexts({ en, es })
