"""Uses a kvferry server as its users do: through OpenAI's own client.

    openai_client.py URL PROMPT

It checks what the client makes of lists, answers, streams and errors, and prints the
texts of the answers as one JSON object, for the caller to compare.
"""

import json
import sys

import openai

MODEL = "kvferry-tiny"
TOKENS = 24


def check(holds, what):
    if not holds:
        sys.exit(f"openai_client: {what}")


def usage_of(usage, completion, what):
    check(usage is not None, f"{what}: no usage")
    check(usage.prompt_tokens > 0, f"{what}: {usage}")
    check(usage.completion_tokens == completion, f"{what}: {usage}")
    check(usage.total_tokens == usage.prompt_tokens + completion, f"{what}: {usage}")


def models(client):
    listed = client.models.list()
    check([m.id for m in listed] == [MODEL], f"models are {listed}")
    check(listed.data[0].object == "model", f"models are {listed}")


def completion(client, prompt):
    got = client.completions.create(
        model=MODEL, prompt=prompt, max_tokens=TOKENS, temperature=0, logprobs=2,
        extra_body={"ignore_eos": True},
    )
    choice = got.choices[0]
    check(got.object == "text_completion" and got.id.startswith("cmpl-"), f"completion is {got}")
    check(choice.finish_reason == "length", f"completion is {got}")
    check(len(choice.logprobs.tokens) == TOKENS, f"logprobs are {choice.logprobs}")
    usage_of(got.usage, TOKENS, "completion")
    return choice.text


def completion_stream(client, prompt):
    text, usage, reason = "", None, None
    stream = client.completions.create(
        model=MODEL, prompt=prompt, max_tokens=TOKENS, temperature=0, stream=True,
        stream_options={"include_usage": True}, extra_body={"ignore_eos": True},
    )
    events = 0
    for event in stream:
        events += 1
        usage = event.usage or usage
        for choice in event.choices:
            text += choice.text
            reason = choice.finish_reason or reason
    check(events > TOKENS // 2, f"a stream of {events} events")
    check(reason == "length", f"the stream ended with {reason}")
    usage_of(usage, TOKENS, "streamed completion")
    return text


def chat(client, prompt):
    got = client.chat.completions.create(
        model=MODEL, messages=[{"role": "user", "content": prompt}], max_completion_tokens=TOKENS,
        temperature=0, logprobs=True, top_logprobs=2, extra_body={"ignore_eos": True},
    )
    choice = got.choices[0]
    check(got.object == "chat.completion" and got.id.startswith("chatcmpl-"), f"chat is {got}")
    check(choice.message.role == "assistant" and choice.finish_reason == "length", f"chat is {got}")
    check(len(choice.logprobs.content) == TOKENS, f"logprobs are {choice.logprobs}")
    usage_of(got.usage, TOKENS, "chat")
    return choice.message.content


def chat_stream(client, prompt):
    text, usage, roles = "", None, []
    with client.chat.completions.create(
        model=MODEL, messages=[{"role": "user", "content": prompt}], max_tokens=TOKENS,
        temperature=0, stream=True, stream_options={"include_usage": True},
        extra_body={"ignore_eos": True},
    ) as stream:
        for event in stream:
            usage = event.usage or usage
            for choice in event.choices:
                text += choice.delta.content or ""
                roles += [choice.delta.role] if choice.delta.role else []
    check(roles == ["assistant"], f"the stream's roles are {roles}")
    usage_of(usage, TOKENS, "streamed chat")
    return text


def hang_up(client, prompt):
    """Leaves a long stream after its first event."""
    stream = client.completions.create(model=MODEL, prompt=prompt, max_tokens=5000, stream=True)
    next(iter(stream))
    stream.close()


def fails(error, what, **request):
    client = request.pop("client")
    try:
        client.completions.create(**request)
    except error as e:
        check(e.body and e.body["message"], f"{what}: {e.body}")
        return e
    except Exception as e:  # the wrong one
        sys.exit(f"openai_client: {what}: {type(e).__name__}: {e}")
    sys.exit(f"openai_client: {what}: no error")


def errors(client):
    e = fails(openai.NotFoundError, "unknown model", client=client, model="gpt-9", prompt="a")
    check(e.code == "model_not_found" and e.param == "model", f"unknown model: {e.body}")
    e = fails(openai.BadRequestError, "out of range", client=client, model=MODEL, prompt="a", temperature=3)
    check(e.param == "temperature" and e.type == "invalid_request_error", f"out of range: {e.body}")
    e = fails(openai.BadRequestError, "too long", client=client, model=MODEL, prompt="a b c d " * 9000)
    check(e.code == "context_length_exceeded", f"too long: {e.body}")
    e = fails(openai.BadRequestError, "unsupported", client=client, model=MODEL, prompt="a", n=2)
    check(e.param == "n", f"unsupported: {e.body}")


def main():
    url, prompt = sys.argv[1:]
    client = openai.OpenAI(base_url=url + "/v1", api_key="none", max_retries=0, timeout=60)
    models(client)
    texts = {f.__name__: f(client, prompt) for f in (completion, completion_stream, chat, chat_stream)}
    hang_up(client, prompt)
    errors(client)
    print(json.dumps(texts))


if __name__ == "__main__":
    main()
