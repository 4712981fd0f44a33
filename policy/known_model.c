#include "policy/known_model.h"

#include "runtime/base/mem.h"

#include <string.h>

static const struct known_provider providers[] = {
	{ "anthropic", "anthropic", "claude-opus-4-6" },
	{ "openai", "openai-responses", "gpt-5.1" },
	{ "gemini", "gemini", "gemini-2.5-pro" },
};

#define MICRO(usd) ((uint64_t)((usd)*1000000.0 + 0.5))
#define RATES(in, out, hit, write, write_1h)                                                                 \
	{                                                                                                    \
		.input = MICRO(in), .output = MICRO(out), .cached = MICRO(hit), .cache_write = MICRO(write), \
		.cache_write_1h = MICRO(write_1h)                                                            \
	}
#define TIER(tokens, ...) .above_tokens = (tokens), .above = __VA_ARGS__
#define NO_TIER .above_tokens = 0
#define KNOWN_MODEL(provider, model, context, output, rates_and_tier...) \
	{ provider, model, context, output, { .known = true, .base = rates_and_tier } },
static const struct known_model models[] = {
#include "policy/known_models.def"
};

const struct known_provider *known_provider_find(const char *name)
{
	for (size_t i = 0; i < countof(providers); i++)
		if (strcmp(providers[i].name, name) == 0)
			return &providers[i];
	return NULL;
}

const struct known_provider *known_provider_of(const char *dialect)
{
	for (size_t i = 0; i < countof(providers); i++)
		if (strcmp(providers[i].dialect, dialect) == 0)
			return &providers[i];
	return NULL;
}

/* "-20251001" or "-2025-08-07" */
static bool is_date_suffix(const char *s)
{
	size_t digits = strspn(s, "-0123456789");

	return *s == '-' && s[digits] == '\0' && (digits == strlen("-20251001") || digits == strlen("-2025-08-07"));
}

const struct known_model *known_model_find(const char *provider, const char *model)
{
	for (size_t i = 0; i < countof(models); i++) {
		size_t n = strlen(models[i].model);

		if (strcmp(models[i].provider, provider) == 0 && strncmp(models[i].model, model, n) == 0 &&
		    (!model[n] || is_date_suffix(model + n)))
			return &models[i];
	}
	return NULL;
}
